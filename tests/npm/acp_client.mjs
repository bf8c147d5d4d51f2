// The official clients of the Agent Client Protocol against `midstream acp`: version 1, its stable and
// unstable parts, and the draft of version 2.
// Arguments: the Python to run it with, and a folder. What it saw is JSON on stdout.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk/unstable";
import * as draft from "@agentclientprotocol/sdk/experimental/v2";

const [python, cwd] = process.argv.slice(2);
const { agent, client } = acp.methods;
const text = {};
let heard = () => {};

const app = acp
  .client({ name: "test" })
  .onNotification(client.session.update, ({ params }) => {
    const { sessionId, update } = params;
    if (update.sessionUpdate === "agent_message_chunk") {
      text[sessionId] = (text[sessionId] ?? "") + update.content.text;
    }
    heard();
  })
  .onRequest(client.session.requestPermission, ({ params }) => ({
    outcome: { outcome: "selected", optionId: params.options[0].optionId },
  }));

function started() {
  const child = spawn(python, ["-m", "midstream", "acp"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const stream = acp.ndJsonStream(
    Writable.toWeb(child.stdin),
    Readable.toWeb(child.stdout),
  );
  return { child, stream };
}

const says = (sessionId, words) => ({
  sessionId,
  prompt: [{ type: "text", text: words }],
});

const until = (holds) =>
  new Promise((resolve) => {
    heard = () => holds() && resolve();
    heard();
  });

const initialized = (ctx) =>
  ctx.request(agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
  });

const first = started();
const told = await app.connectWith(first.stream, async (ctx) => {
  await initialized(ctx);
  const made = await ctx.request(agent.session.new, { cwd, mcpServers: [] });
  const id = made.sessionId;
  const begun = ctx.request(agent.session.prompt, says(id, "count"));
  await until(() => text[id]?.includes("One"));
  const steered = ctx.request(agent.session.prompt, says(id, "three"));
  const stops = [(await begun).stopReason, (await steered).stopReason];
  const words = text[id];
  const forked = await ctx.request(agent.session.fork, { sessionId: id, cwd, mcpServers: [] });
  stops.push((await ctx.request(agent.session.prompt, says(forked.sessionId, "four"))).stopReason);
  await ctx.request(agent.session.close, { sessionId: forked.sessionId });
  const modes = made.modes.availableModes.map((mode) => mode.id);
  return { id, stops, text: words, modes };
});
first.child.kill("SIGKILL");

text[told.id] = "";
const second = started();
await app.connectWith(second.stream, async (ctx) => {
  await initialized(ctx);
  const listed = await ctx.request(agent.session.list, { cwd });
  told.listed = listed.sessions.map((each) => each.title).slice(-1);
  await ctx.request(agent.session.load, { sessionId: told.id, cwd, mcpServers: [] });
  told.again = text[told.id];
});
second.child.kill("SIGTERM");

const states = [];
const app2 = draft
  .client({ name: "test" })
  .onNotification(draft.methods.client.session.update, ({ params }) => {
    const { update } = params;
    if (update.sessionUpdate === "state_update") states.push(update.stopReason ?? update.state);
    heard();
  });
const third = started();
await app2.connectWith(third.stream, async (ctx) => {
  await ctx.request(draft.methods.agent.initialize, {
    protocolVersion: 2,
    info: { name: "test", version: "1" },
    capabilities: {},
  });
  const { sessionId } = await ctx.request(draft.methods.agent.session.new, { cwd, mcpServers: [] });
  await ctx.request(draft.methods.agent.session.prompt, says(sessionId, "five"));
  await until(() => states.includes("end_turn"));
});
third.child.kill("SIGTERM");
told.states = states;
console.log(JSON.stringify(told));
