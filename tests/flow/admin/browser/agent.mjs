// An agent by the TypeScript SDK: node agent.mjs URL KEY TENANT COUNT. Prints the titles that its tenant sees, as JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, key, tenant, count] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${key}` };
const client = new Client({ name: "typescript", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));

async function call(name, args) {
  const answer = await client.callTool({ name, arguments: args });
  if (answer.isError) throw new Error(JSON.stringify(answer));
  return answer.structuredContent;
}

const made = [];
for (let number = 0; number < Number(count); number++) {
  made.push(await call("schedule_task", { title: `${tenant} task ${number}`, when: "in 2 hours" }));
}
await call("cancel_task", { task_id: made[0].id, reason: "not needed" });
const listed = await call("list_tasks", { limit: 100 });
process.stdout.write(JSON.stringify(listed.tasks.map((row) => row.title)));
await client.close();
