// Editors that talk to `midstream acp` at random, through the official client; see editors.py.
//
//   node editors.mjs < {"midstream": [...], "sdk": URL, "seed": 1, "first": 0, "count": 5, "cwd": DIR, "env": {...}}
//
// One line of JSON on stdout for each conversation: what was prompted, and what came of it.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { text } from "node:stream/consumers";
import { Readable, Transform, Writable } from "node:stream";

const asked = JSON.parse(await text(process.stdin));
const acp = await import(asked.sdk);
const SLOW_MS = 120_000;

/** Numbers from 0 to 1 that a name settles: the same seed makes the same conversation. */
function luckOf(name) {
  let count = 0;
  return () => createHash("sha256").update(`${name}/${count++}`).digest().readUInt32BE() / 2 ** 32;
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** What a promise came to; a string where nothing came in time, which no working agent lets happen. */
function inTime(promise, what) {
  let timer;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error(`nothing came of: ${what}`)), SLOW_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** One process of the agent, with an editor connected to it. */
async function opened(story, luck) {
  const child = spawn(asked.midstream[0], asked.midstream.slice(1), {
    cwd: asked.cwd,
    env: asked.env,
    stdio: ["pipe", "pipe", "pipe"],
  });
  const life = { child, isOver: false, ended: new Promise((done) => child.on("close", done)) };
  let said = "";
  child.stderr.on("data", (data) => (said = (said + data).slice(-2000)));
  life.said = () => said;
  // Nothing but the protocol is ever on its stdout. What a kill cut in the middle is no line.
  let rest = "";
  const watched = new Transform({
    transform(data, _, done) {
      const lines = (rest + data).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        try {
          if (JSON.parse(line).jsonrpc !== "2.0") throw new Error();
        } catch {
          story.wrong.push(`on stdout: ${line.slice(0, 200)}`);
        }
      }
      done(null, data);
    },
  });
  child.stdin.on("error", () => {});
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout.pipe(watched)));
  const editor = acp
    .client({ name: "editors at random" })
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => permitted(params, luck, life))
    .onNotification(acp.methods.client.session.update, ({ params }) => {
      story.updates += 1;
      const { sessionUpdate, content } = params.update;
      if (sessionUpdate === "agent_message_chunk") story.chars += content.text?.length ?? 0;
    });
  life.agent = editor.connect(stream).agent;
  return life;
}

/** A person who says yes, no, yes for all of the run, closes the card, or looks at it for a while first. */
async function permitted({ options }, luck, life) {
  const chance = luck();
  await Promise.race([pause(luck() * (chance < 0.1 ? 1500 : 60)), life.ended]);
  if (chance < 0.2) return { outcome: { outcome: "cancelled" } };
  const { optionId } = options[Math.floor(luck() * options.length)];
  return { outcome: { outcome: "selected", optionId } };
}

function prompt(story, life, session, words) {
  const entry = { text: words, came: null };
  story.prompts.push(entry);
  const request = life.agent.request(acp.methods.agent.session.prompt, {
    sessionId: session,
    prompt: [{ type: "text", text: words }],
  });
  entry.done = inTime(request, words).then(
    (response) => (entry.came = response.stopReason),
    (error) => (entry.came = life.isOver ? "gone" : `error: ${error.message} ${JSON.stringify(error.data ?? "")} ${life.said()}`),
  );
  return entry.done;
}

async function conversation(number) {
  const luck = luckOf(`${asked.seed}/${number}`);
  const story = { number, prompts: [], wrong: [], updates: 0, chars: 0, sessions: [], lives: 0, cancels: 0, session: null };
  const lives = 1 + Math.floor(luck() * 3);
  for (let life = 0; life < lives; life++) await oneLife(story, number, luck, life === lives - 1);
  for (const entry of story.prompts) delete entry.done;
  return story;
}

async function oneLife(story, number, luck, isLast) {
  const life = await opened(story, luck);
  story.lives += 1;
  try {
    const { session: methods } = acp.methods.agent;
    const hello = { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} };
    await inTime(life.agent.request(acp.methods.agent.initialize, hello), "initialize");
    const place = { cwd: asked.cwd, mcpServers: [] };
    if (story.session === null) {
      story.session = (await inTime(life.agent.request(methods.new, place), "session/new")).sessionId;
    } else {
      const how = luck() < 0.5 ? methods.load : methods.resume;
      try {
        await inTime(life.agent.request(how, { ...place, sessionId: story.session }), how);
      } catch (error) {
        // A session nobody has said anything in that was kept: there is none.
        if (story.prompts.some(({ came }) => came !== "gone")) throw error;
        story.sessions.push(story.session);
        story.session = (await inTime(life.agent.request(methods.new, place), "session/new")).sessionId;
      }
    }
    const steps = 1 + Math.floor(luck() * 6);
    for (let step = 0; step < steps; step++) {
      const chance = luck();
      if (chance < 0.6) {
        const words = `words ${number}-${story.prompts.length}`;
        const answered = prompt(story, life, story.session, words);
        if (luck() < 0.4) await answered;
      } else if (chance < 0.8) {
        story.cancels += 1;
        await life.agent.notify(methods.cancel, { sessionId: story.session });
      }
      await pause(luck() * luck() * 150);
    }
    if (isLast) {
      // Whatever a kill has cut: the conversation goes on, and every prompt has its end.
      await Promise.all(story.prompts.map((entry) => entry.done));
      await prompt(story, life, story.session, `words ${number}-${story.prompts.length}`);
    }
  } catch (error) {
    story.wrong.push(`${error.message} ${JSON.stringify(error.data ?? "")} ${life.said()}`);
  }
  life.isOver = true;
  if (!isLast && luck() < 0.6) life.child.kill("SIGKILL");
  else life.child.stdin.end();
  await inTime(life.ended, "the end of the process").catch((error) => {
    story.wrong.push(error.message);
    life.child.kill("SIGKILL");
  });
  await Promise.all(story.prompts.map((entry) => entry.done));
}

for (let number = asked.first; number < asked.first + asked.count; number++) {
  process.stdout.write(JSON.stringify(await conversation(number)) + "\n");
}
process.exit(0);
