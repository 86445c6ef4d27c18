/* One turn of each chat on your server, then a press on the card of the first: `node dist/turn/turn.js URL KEY TITLE TITLE`.
   It writes what each answers as JSON.

   A model that always schedules stands in for a real one, so that no key of a provider is needed. */

import { MockLanguageModelV4, simulateReadableStream } from "ai/test";
import { agent, chat, press } from "../src/route";

declare const process: { argv: string[]; stdout: { write(text: string): void } };

const [url = "", key = "", title = "", other = ""] = process.argv.slice(2);
const tokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 };
const usage = { inputTokens: tokens, outputTokens: { total: 1, text: 1, reasoning: 0 } };

function scheduling(title: string): MockLanguageModelV4 {
  const input = JSON.stringify({ title, when: "tomorrow 9am", timezone: "America/Denver", approval: { question: "May I remind you?" } });
  return new MockLanguageModelV4({
    doStream: [
      answer([{ type: "tool-call", toolCallId: "call_1", toolName: "schedule_task", input }, finished("tool-calls")]),
      answer([{ type: "text-start", id: "1" }, { type: "text-delta", id: "1", delta: "Done." }, { type: "text-end", id: "1" }, finished("stop")]),
    ],
  });
}

type Streamed = Awaited<ReturnType<MockLanguageModelV4["doStream"]>>;
type Part = Streamed["stream"] extends ReadableStream<infer P> ? P : never;

function answer(chunks: Part[]): Streamed {
  return { stream: simulateReadableStream({ chunks: [{ type: "stream-start", warnings: [] }, ...chunks] }) };
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
const run = { threadId: "thread", runId: "run", messages: [{ id: "m1", role: "user", content: other }], tools: [], context: [] };
const events = await (await agent(posted(run), scheduling(other), url, key)).text();
process.stdout.write(JSON.stringify({ stream, offered, approved, events }));
