"""Where in a run an effect is: the keys of effects in branches."""

from midstream.core.inputs import EffectKey
from midstream.core.run import WITHIN, Run


def key_from(run: Run, path: str, key: EffectKey) -> EffectKey:
    """Return the key that an effect of the branch at a path has for the whole run."""
    if not path:
        return key
    name, _, rest = path.partition("/")
    return (run.visit.step, WITHIN, name, *key_from(run.visit.branches[name], rest, key))


def path_of(key: EffectKey) -> str:
    """Return the path of the branch an effect belongs to, "" for the run itself."""
    names = []
    while len(key) > 3 and key[1] == WITHIN:
        names.append(str(key[2]))
        key = key[3:]
    return "/".join(names)


def timer_of(key: EffectKey) -> str:
    """Return the name of the timer an effect is about."""
    return str(key[-1]).partition(" ")[0]
