/** Measures requests over N connections with autocannon. Runs in the load process. */
import autocannon from 'autocannon';
import { type Quantiles, Samples } from './quantiles.ts';
import { makeRequests, type Workload } from './workload.ts';

export interface ThroughputJob {
  port: number;
  connections: number;
  seconds: number;
  workload: Workload;
  /** Over TLS, without checking the certificate. */
  isSecure?: boolean;
  /** Requests a second of all connections together; as many as possible if absent. */
  rate?: number;
}

export interface ThroughputResult {
  /** Answers with status 200; and all other requests, with another answer or without one. */
  answered: number;
  failed: number;
  /** From the first request to the last answer. */
  elapsedS: number;
  requestsPerS: number;
  /** Microseconds. autocannon measures each request, but its histogram counts whole milliseconds. */
  latencyUs: Quantiles;
}

/** Runs one load to its end. Rejects if autocannon cannot start. Failed requests are counted, not thrown. */
export function measureThroughput(job: ThroughputJob): Promise<ThroughputResult> {
  return new Promise((resolve, reject) => {
    const latency = new Samples();
    let answered = 0;
    let failed = 0;
    let connection = 0;
    let lastAt = 0n;
    const startedAt = process.hrtime.bigint();
    const run = autocannon(
      {
        url: `${job.isSecure === true ? 'https' : 'http'}://127.0.0.1:${job.port}/`,
        method: 'POST',
        connections: job.connections,
        duration: job.seconds,
        ...(job.rate === undefined ? {} : { overallRate: job.rate }),
        timeout: 20,
        sampleInt: 50,
        // autocannon would build one request and repeat it. Ours are new each time, and built without a copy.
        setupClient: (client) => {
          client.getRequestBuffer = makeRequests(job.workload, job.port, connection++);
        },
      },
      (error, result) => {
        if (error) return reject(error);
        const elapsedS = Number(lastAt - startedAt) / 1e9;
        failed += result.errors;
        const requestsPerS = answered === 0 ? 0 : answered / elapsedS;
        resolve({ answered, failed, elapsedS, requestsPerS, latencyUs: latency.quantiles() });
      },
    );
    run.on('response', (_client: unknown, status: number, _bytes: number, ms: number) => {
      if (status === 200) answered++;
      else failed++;
      latency.add(ms * 1000);
      lastAt = process.hrtime.bigint();
    });
  });
}
