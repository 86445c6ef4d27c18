/* Turns of each chat on your server, and a press on the first card: `node dist/turn/turn.js URL KEY TITLE TITLE TITLE`.
   The first title is for the Vercel AI SDK, the others for CopilotKit. A turn of a model that fails and one that nobody
   reads follow. It writes what each answers as JSON, and how many requests over MCP are open in the end.

   A model that always schedules stands in for a real one, so that no key of a provider is needed. */

import { MockLanguageModelV4, simulateReadableStream } from "ai/test";
import { agent, chat, press } from "../src/route";

declare const process: { argv: string[]; stdout: { write(text: string): void } };

const [url = "", key = "", title = "", ...others] = process.argv.slice(2);
const tokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 };
const usage = { inputTokens: tokens, outputTokens: { total: 1, text: 1, reasoning: 0 } };

const requests: (AbortSignal | null | undefined)[] = [];
const send = globalThis.fetch;
globalThis.fetch = (to, init) => {
  if (init?.method !== "DELETE") requests.push(init?.signal);
  return send(to, init);
};

/** Its texts have the same id in each step, as those of many providers. */
function scheduling(title: string): MockLanguageModelV4 {
  const input = JSON.stringify({ title, when: "tomorrow 9am", timezone: "America/Denver", approval: { question: "May I remind you?" } });
  return new MockLanguageModelV4({
    doStream: [
      answer([...text("I schedule it."), { type: "tool-call", toolCallId: `call ${title}`, toolName: "schedule_task", input }, finished("tool-calls")]),
      answer([...text("Done."), finished("stop")]),
    ],
  });
}

type Streamed = Awaited<ReturnType<MockLanguageModelV4["doStream"]>>;
type Part = Streamed["stream"] extends ReadableStream<infer P> ? P : never;

function answer(chunks: Part[]): Streamed {
  return { stream: simulateReadableStream({ chunks: [{ type: "stream-start", warnings: [] }, ...chunks] }) };
}

function text(delta: string): Part[] {
  return [{ type: "text-start", id: "1" }, { type: "text-delta", id: "1", delta }, { type: "text-end", id: "1" }];
}

function finished(unified: "stop" | "tool-calls"): Part {
  return { type: "finish", finishReason: { unified, raw: undefined }, usage };
}

function posted(body: unknown): Request {
  return new Request("http://localhost/api", { method: "POST", body: JSON.stringify(body) });
}

const model = scheduling(title);
const asked = { messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: title }] }] };
const stream = await (await chat(posted(asked), model, url, key)).text();
const offered = (model.doStreamCalls[0]?.tools ?? []).map(({ name }) => name);
const id = /t_[0-9a-z]{12}/.exec(stream)?.[0] ?? "";
const approved: unknown = await (await press(posted({ name: "act_on_task", arguments: { task_id: id, action: "approve" } }), url, key)).json();
const events: string[] = [];
for (const other of others) events.push(await (await asAgent(other, scheduling(other))).text());
const failing = new MockLanguageModelV4({ doStream: () => Promise.reject(new Error("The key sk-of-the-provider is wrong")) });
const failed = [await (await chat(posted(asked), failing, url, key)).text(), await (await asAgent(title, failing)).text()];
const endless = new MockLanguageModelV4({ doStream: { stream: new ReadableStream() } });
await (await asAgent(title, endless)).body?.cancel();
await new Promise((done) => setTimeout(done));
const open = requests.filter((signal) => !signal?.aborted).length;
process.stdout.write(JSON.stringify({ stream, offered, approved, events, failed, requests: requests.length, open }));

function asAgent(content: string, model: MockLanguageModelV4): Promise<Response> {
  const run = { threadId: "thread", runId: content, messages: [{ id: "m1", role: "user", content }], tools: [], context: [] };
  return agent(posted(run), model, url, key);
}
