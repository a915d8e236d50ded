/**
 * The process that generates the load of several suites, so that the load does not share a process with what is
 * measured. The suite forks this process, which gets one job at a time as a message, answers with the figures, and
 * exits when its parent exits.
 */
import { type LatencyJob, type LatencyResult, measureLatency } from './load-latency.ts';
import { type MessagesJob, type MessagesResult, measureMessages } from './load-messages.ts';
import { measureProxied, type ProxiedJob, type ProxiedResult } from './load-proxied.ts';
import { measureStreams, type StreamsJob, type StreamsResult } from './load-streams.ts';
import { measureThroughput, type ThroughputJob, type ThroughputResult } from './load-throughput.ts';

/** Jobs of the load process, and its answers. */
export interface LoadJobs {
  throughput: [job: ThroughputJob, result: ThroughputResult];
  latency: [job: LatencyJob, result: LatencyResult];
  streams: [job: StreamsJob, result: StreamsResult];
  messages: [job: MessagesJob, result: MessagesResult];
  proxied: [job: ProxiedJob, result: ProxiedResult];
}

const jobs: { [K in keyof LoadJobs]: (job: LoadJobs[K][0]) => Promise<LoadJobs[K][1]> } = {
  throughput: measureThroughput,
  latency: measureLatency,
  streams: measureStreams,
  messages: measureMessages,
  proxied: measureProxied,
};

process.on('message', (message: { kind: keyof LoadJobs; job: never }) => {
  jobs[message.kind](message.job).then(
    (result) => process.send?.({ result }),
    (error: unknown) => process.send?.({ error: error instanceof Error ? error.message : String(error) }),
  );
});
process.on('disconnect', () => process.exit(0));
process.send?.({ ready: true });
