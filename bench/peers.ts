/**
 * The gateway beside other proxies: `npm run bench -- peers`. The same 4 KB requests over 32 connections through nginx, HAProxy,
 * mitmproxy (which writes its flows) and the Portkey gateway, as far as they are installed, and the gateway with capture and without, in
 * alternating rounds. Each has one thread or worker. Own process.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LoadJobs } from './load.ts';
import { INSTALL, PEERS, type Peer, type PeerName, startPeer } from './peer-targets.ts';
import { readAnonBytes, readCpuUs } from './process-meter.ts';
import { takeMedian } from './quantiles.ts';
import { type Provenance, readLastResult, saveResult, takeProvenance } from './results.ts';
import { startBenchProcess, startServer } from './targets.ts';

interface PeersBenchOptions {
  quick: boolean;
  /** Keep the figures in bench/results. */
  save: boolean;
  say: (what: string) => void;
}

/** Medians of the rounds. */
interface PeerFigures {
  name: PeerName;
  version: string;
  per_s: number;
  p99_ms: number;
  cpu_us: number;
  anon_bytes: number;
}

interface PeersResult extends Provenance {
  suite: 'peers';
  peers: PeerFigures[];
}

const CONNECTIONS = 32;
const BODY_BYTES = 4_096;
const ROUNDS = { full: 7, quick: 3 };
const ROUND_S = { full: 3, quick: 1 };
const WARM_UP_S = { full: 6, quick: 2 };

export async function runPeersBench({ quick, save, say }: PeersBenchOptions): Promise<void> {
  const size = quick ? 'quick' : 'full';
  const dir = mkdtempSync(join(tmpdir(), 'bench-peers-'));
  const stops: (() => Promise<void> | void)[] = [];
  try {
    const upstream = await startServer('upstream.ts');
    stops.push(upstream.stop);
    const { child } = await startBenchProcess<{ ready: true }>('load.ts');
    stops.push(() => child.disconnect());
    const load = ({ port, headers }: Peer, seconds: number) =>
      new Promise<LoadJobs['throughput'][1]>((resolve, reject) => {
        child.once('message', (answer: { result?: LoadJobs['throughput'][1]; error?: string }) =>
          answer.result === undefined ? reject(new Error(answer.error)) : resolve(answer.result),
        );
        const workload = { kind: 'plain', bytes: BODY_BYTES, headers };
        child.send({ kind: 'throughput', job: { port, connections: CONNECTIONS, seconds, workload } });
      });
    const peers: Peer[] = [];
    for (const name of PEERS) {
      say(`starting ${name}`);
      const peer = await startPeer(name, upstream.port, join(dir, name));
      if (peer === null) {
        const how = INSTALL[name];
        console.log(`${name} is not installed: left out${how === undefined ? '' : ` (${how})`}`);
        continue;
      }
      stops.push(peer.stop);
      peers.push(peer);
      await load(peer, WARM_UP_S[size]);
    }
    const rounds = new Map(
      peers.map(({ name }) => [name, [] as { per_s: number; p99_ms: number; cpu_us: number }[]]),
    );
    for (let round = 0; round < ROUNDS[size]; round++) {
      for (const peer of peers) {
        const { name, pid } = peer;
        say(`round ${round + 1}: ${name}`);
        const before = readCpuUs(pid);
        const { answered, failed, requestsPerS, latencyUs } = await load(peer, ROUND_S[size]);
        if (failed > 0) throw new Error(`${failed} requests through ${name} failed`);
        const cpu_us = (readCpuUs(pid) - before) / answered;
        rounds.get(name)!.push({ per_s: requestsPerS, p99_ms: latencyUs.p99 / 1_000, cpu_us });
      }
    }
    const figures = peers.map(({ name, version, pid }): PeerFigures => {
      const median = (pick: (sample: { per_s: number; p99_ms: number; cpu_us: number }) => number) =>
        takeMedian(rounds.get(name)!.map(pick));
      const [per_s, p99_ms, cpu_us] = [
        median((r) => r.per_s),
        median((r) => r.p99_ms),
        median((r) => r.cpu_us),
      ];
      return { name, version, per_s, p99_ms, cpu_us, anon_bytes: readAnonBytes(pid) };
    });
    say('');
    const result: PeersResult = { ...takeProvenance(), suite: 'peers', peers: figures };
    print(result, readLastResult<PeersResult>('peers', result));
    if (save) console.log(`\n${saveResult(result)}`);
  } finally {
    for (const stop of stops.reverse()) await stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

function print({ peers, machine }: PeersResult, last: PeersResult | null): void {
  const gateway = peers.find(({ name }) => name === 'gateway')!;
  console.log(
    `${machine.cpu}, ${machine.cores} cores, load ${machine.load_average[0]!.toFixed(1)}; each with one thread\n`,
  );
  console.log('            requests/s   times gateway   p99 ms   µs of processor   memory   last time');
  for (const { name, version, per_s, p99_ms, cpu_us, anon_bytes } of peers) {
    const before = last?.peers.find((peer) => peer.name === name);
    const change =
      before === undefined ? '' : `${(per_s / before.per_s).toFixed(2)} of ${before.per_s.toFixed(0)}`;
    console.log(
      `${name.padEnd(10)} ${per_s.toFixed(0).padStart(11)} ${(per_s / gateway.per_s).toFixed(2).padStart(15)} ${p99_ms.toFixed(1).padStart(8)} ${cpu_us.toFixed(0).padStart(17)} ${`${(anon_bytes / 1e6).toFixed(0)} MB`.padStart(8)}   ${change} ${version}`,
    );
  }
}
