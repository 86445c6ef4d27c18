// One process of BullMQ: the commands of host.py, a JSON object a line, for Node.
//
//     node bullmq.mjs --redis URL --modules FOLDER

import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const options = Object.fromEntries(
  process.argv.slice(2).flatMap((word, at, all) => (word.startsWith("--") ? [[word.slice(2), all[at + 1]]] : [])),
);
const { Queue, Worker } = createRequire(`${options.modules}/package.json`)("bullmq");

const CONCURRENCY = 100; // jobs are coroutines: more than threads cost nothing
const CALL_MS = 60;
const CALLS_A_SECOND = 50;
const CALLS_IN_FLIGHT = 5;
const RETRY_DELAY_MS = 100;
const SCHEDULE_CHUNK = 1000;
const POLL_MS = 5;

const address = new URL(options.redis);
const connection = { host: address.hostname, port: Number(address.port), maxRetriesPerRequest: null };
const queue = new Queue("bench", { connection, defaultJobOptions: { removeOnComplete: true } });
const limited = new Queue("provider", { connection, defaultJobOptions: { removeOnComplete: true } });
const marks = [];
const now = () => performance.timeOrigin + performance.now();

// The provider of provider.py
const provider = { answered: 0, refused: 0, most: 0, first: 0, last: 0, calls: [], inFlight: 0 };

async function call() {
  const at = now();
  provider.first ||= at;
  while (provider.calls.length && provider.calls[0] <= at - 1000) provider.calls.shift();
  if (provider.calls.length >= CALLS_A_SECOND || provider.inFlight >= CALLS_IN_FLIGHT) {
    provider.refused += 1;
    throw new Error("refused");
  }
  provider.calls.push(at);
  provider.inFlight += 1;
  provider.most = Math.max(provider.most, provider.calls.length);
  await sleep(CALL_MS);
  provider.inFlight -= 1;
  provider.answered += 1;
  provider.last = now();
}

const commands = {
  async schedule({ name, count, batch, due, step_s = 0, asks = false, limit_s }) {
    const began = now();
    const target = asks ? limited : queue;
    const retry = asks ? { attempts: 1000, backoff: { type: "fixed", delay: RETRY_DELAY_MS } } : {};
    const job = (number) => {
      const at = due == null ? 0 : (due + Math.floor(number / batch) * step_s) * 1000;
      const delay = due == null ? {} : { delay: Math.max(0, Math.round(at - Date.now())) };
      return { name: "mark", data: { name: `${name}-${number}` }, opts: { ...retry, ...delay } };
    };
    let number = 0;
    while (number < count && now() - began <= limit_s * 1000) {
      for (const end = Math.min(count, number + SCHEDULE_CHUNK); number < end; ) {
        const jobs = Array.from({ length: Math.min(batch, end - number) }, (_, offset) => job(number + offset));
        if (batch === 1) await target.add(jobs[0].name, jobs[0].data, jobs[0].opts);
        else await target.addBulk(jobs);
        number += jobs.length;
      }
    }
    return { scheduled: number, seconds: (now() - began) / 1000 };
  },

  async trickle({ name, count, gap_s: [least, most] }) {
    const calls = [];
    for (let number = 0; number < count; number += 1) {
      const called = now() / 1000;
      await queue.add("mark", { name: `${name}-${number}` });
      calls.push([`${name}-${number}`, called, now() / 1000]);
      await sleep(1000 * (least + Math.random() * (most - least)));
    }
    return { calls };
  },

  async serve() {
    return {};
  },

  async work() {
    const began = now() / 1000;
    const noted = (job) => void marks.push([job.data.name, now() / 1000]);
    new Worker("bench", async (job) => noted(job), { connection, concurrency: CONCURRENCY });
    const limiter = { max: CALLS_A_SECOND, duration: 1000 };
    const asking = async (job) => {
      await call();
      noted(job);
    };
    new Worker("provider", asking, { connection, concurrency: CALLS_IN_FLIGHT, limiter });
    return { began };
  },

  async wait({ count, limit_s }) {
    const giveUp = now() + limit_s * 1000;
    while (marks.length < count && now() < giveUp) await sleep(POLL_MS);
    const { answered, refused, most, first, last } = provider;
    return { ended: now() / 1000, marks, provider: { answered, refused, most, seconds: (last - first) / 1000 } };
  },
};

await Promise.all([queue.waitUntilReady(), limited.waitUntilReady()]);
console.log(JSON.stringify({ ready: true }));
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  console.log(JSON.stringify(await commands[asked.do](asked)));
}
process.exit(0);
