"""Running a workflow: the loop around the pure functions, its effects, and where runs live.

Begin with `state_machine` (`WorkflowStateMachine`): the loop. `in_flight` keeps exactly what the
run is owed in flight, `effects` makes each effect, `handlers` runs functions of `script.py`,
`emitter` tells listeners. `workflow_library` finds workflows and roles, `loader` reads them;
`python_workflow` makes a workflow of functions, `state_functions` says what those are pinned to.
`engine` starts, keeps and resumes runs, `ports` says what the world around has to give.
"""
