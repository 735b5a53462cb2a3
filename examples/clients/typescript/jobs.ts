// Train a model of the zoo on an uploaded data set, and follow the job and its events to the end:
//
//     npm ci && npm run types && npm run build
//     node build/jobs.js MODEL DATASET [EPOCHS]
//
// $PACELINE_URL is the coordinator (default http://127.0.0.1:7410), $PACELINE_TOKEN its token.
// Node takes the coordinator's authority from $NODE_EXTRA_CA_CERTS. api.d.ts has the types of all
// routes; openapi-typescript makes it from the contract. Exit status 1 unless the job succeeds.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Schemas = components["schemas"];
type Job = Schemas["job"];

const url = (process.env.PACELINE_URL ?? "http://127.0.0.1:7410").replace(/\/$/, "");
const token = process.env.PACELINE_TOKEN;
const headers: Record<string, string> = token ? { Authorization: `Bearer ${token}` } : {};
// Several states are one parameter with commas.
const querySerializer = { array: { style: "form", explode: false } } as const;
const api = createClient<paths>({ baseUrl: url, headers, querySerializer });

/** The data of an answer; throws what its problem says. */
function must<T>(answer: { data?: T; error?: Schemas["problem"] }): T {
    if (answer.data === undefined) {
        throw new Error(`${answer.error?.code}: ${answer.error?.detail}`);
    }
    return answer.data;
}

/** The job now, and after each change until it has ended. */
async function* changes(job: Job): AsyncGenerator<Job> {
    const ended: Job["state"][] = ["succeeded", "failed", "cancelled"];
    for (;;) {
        yield job;
        if (ended.includes(job.state)) {
            return;
        }
        const query = { after: job.revision, wait: 30 };
        job = must(
            await api.GET("/v1/jobs/{id}", { params: { path: { id: job.id }, query } }),
        );
    }
}

/** All losses of the job, page by page. */
async function losses(job: Job): Promise<number[]> {
    const values: number[] = [];
    let cursor: string | null | undefined;
    do {
        const page = must(
            await api.GET("/v1/jobs/{id}/metrics", {
                params: {
                    path: { id: job.id },
                    query: { name: "loss", ...(cursor ? { cursor } : {}) },
                },
            }),
        );
        values.push(...page.items.map((metric) => metric.value));
        cursor = page.next_cursor;
    } while (cursor);
    return values;
}

/** The events of a stream, until `stop`. Their types are known: a switch over them is checked. */
async function* events(job: Job, stop: AbortSignal): AsyncGenerator<Schemas["event"]> {
    const answer = await fetch(`${url}/v1/events?job=${job.id}`, { headers, signal: stop });
    let text = "";
    const decoder = new TextDecoder();
    for await (const piece of answer.body ?? []) {
        text += decoder.decode(piece, { stream: true });
        for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
            const data = text.slice(0, end).match(/^data: (.*)$/m)?.[1];
            text = text.slice(end + 2);
            if (data) {
                yield JSON.parse(data) as Schemas["event"];
            }
        }
    }
}

async function printEvents(job: Job, stop: AbortSignal): Promise<void> {
    const ends: Schemas["event_type"][] = ["job_succeeded", "job_failed", "job_cancelled"];
    try {
        for await (const event of events(job, stop)) {
            console.log(`event ${event.type}`);
            if (ends.includes(event.type)) {
                return;
            }
        }
    } catch (error) {
        if (!stop.aborted) {
            throw error;
        }
    }
}

async function follow(model: string, dataset: string, epochs: number): Promise<number> {
    let job: Job = must(
        await api.POST("/v1/jobs", {
            body: { model: { name: model }, dataset: { train: dataset }, epochs },
        }),
    ) as Job; // without dry_run
    const stop = new AbortController();
    const printed = printEvents(job, stop.signal);
    let shown: Job["state"] | undefined;
    for await (job of changes(job)) {
        if (job.state !== shown) {
            shown = job.state;
            console.log(`${job.id} ${job.state} ${job.message ?? ""}`.trimEnd());
        }
    }
    setTimeout(() => stop.abort(), 5000).unref();
    await printed;
    const values = await losses(job);
    console.log(`${values.length} losses, from ${values.at(0)} to ${values.at(-1)}`);
    const newest = must(
        await api.GET("/v1/jobs", {
            params: { query: { order: "desc", state: ["succeeded", "failed"], view: "short" } },
        }),
    );
    for (const other of newest.items) {
        console.log(`${other.id} ${other.state} ${Math.round(other.progress.fraction * 100)}%`);
    }
    return job.state === "succeeded" ? 0 : 1;
}

const [model, dataset, epochs] = process.argv.slice(2);
if (!model || !dataset) {
    console.error("usage: node jobs.js MODEL DATASET [EPOCHS]");
    process.exit(2);
}
try {
    process.exitCode = await follow(model, dataset, Number(epochs ?? 1));
} catch (error) {
    console.error(`jobs.js: ${(error as Error).message}`);
    process.exitCode = 1;
}
