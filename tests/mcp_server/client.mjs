// The official TypeScript client against `midstream mcp serve`: node client.mjs COMMAND ARGUMENT...
// It says "begun" once a run is under way and waits for a line; what it found is its last line, as JSON.
import { once } from "node:events";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages are those of tests/npm, wherever this file stands.
const packages = createRequire(new URL("../npm/package.json", import.meta.url));
const sdk = (path) => import(pathToFileURL(packages.resolve(`@modelcontextprotocol/sdk/${path}`)));
const { Client } = await sdk("client/index.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const { ElicitRequestSchema } = await sdk("types.js");

const [command, ...args] = process.argv.slice(2);
const found = { progress: [], forms: [] };
const transport = new StdioClientTransport({ command, args, env: process.env, cwd: process.cwd() });
const client = new Client(
  { name: "typescript", version: "1" },
  { capabilities: { elicitation: {} } },
);
client.setRequestHandler(ElicitRequestSchema, async (request) => {
  found.forms.push(request.params.requestedSchema);
  return { action: "accept", content: { answer: "blue" } };
});
await client.connect(transport);

// The client checks each result against the tool's output schema.
const tell = async (name, args, options) => {
  const result = await client.callTool({ name, arguments: args }, undefined, options);
  if (result.isError) throw new Error(result.content[0].text);
  return result.structuredContent;
};
const onprogress = ({ message }) => found.progress.push(message);

found.tools = (await client.listTools()).tools.map((tool) => tool.name);
found.asked = await tell("start_run", { workflow: "talk", input: "which?", wait_s: 60 }, { onprogress });

const story = await tell("start_run", { workflow: "talk", input: "a story" });
const waiting = new AbortController();
const waits = tell("run_status", { run: story.run, wait_s: 600 }, { signal: waiting.signal });
console.log("begun");
await once(process.stdin, "data");
process.stdin.pause();
waiting.abort();
found.cancelled = await waits.then(() => false, () => true);
found.going = await tell("run_status", { run: story.run });
found.steered = await tell("say_to_run", { run: story.run, text: "shorter", wait_s: 60 });
found.events = await tell("run_events", { run: story.run, limit: 200 });
found.many = await Promise.all(
  Array.from({ length: 20 }, (_, n) => tell("start_run", { workflow: "talk", input: `${n}`, wait_s: 60 })),
);
found.wrong = await client.callTool({ name: "start_run", arguments: { workflow: 7 } });
found.resource = await client.readResource({ uri: `midstream://runs/${story.run}` });
await client.close();
console.log(JSON.stringify(found));
