/**
 * Compares the gateway, with capture and without, with other proxies: `npm run bench -- peers`. The other proxies are
 * nginx, HAProxy, mitmproxy (which writes its flows), the Portkey gateway and LiteLLM's proxy, if they are installed.
 * All get the same requests over 32 connections, in alternating rounds: growing conversations of up to 600 KB, then
 * bodies of 4 KB. Each proxy has one worker or one server thread. Own process.
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
import type { Workload } from './workload.ts';

interface PeersBenchOptions {
  quick: boolean;
  /** Whether to store the figures in bench/results. */
  save: boolean;
  say: (what: string) => void;
}

/** Medians of the rounds, and the memory after the last round. */
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
  /** Figures with bodies of 4 KB. */
  peers: PeerFigures[];
  /** Figures with growing conversations of up to 600 KB. */
  conversations: PeerFigures[];
}

const CONNECTIONS = 32;
const WORKLOADS: readonly Workload[] = [
  { kind: 'conversation', bytes: 600 * 1_024 },
  { kind: 'plain', bytes: 4_096 },
];
const ROUNDS = { full: 5, quick: 3 };
const ROUND_S = { full: 3, quick: 1 };
const WARM_UP_S = { full: 6, quick: 2 };

type LoadResult = LoadJobs['throughput'][1];
type AskLoad = (peer: Peer, workload: Workload, seconds: number) => Promise<LoadResult>;

export async function runPeersBench({ quick, save, say }: PeersBenchOptions): Promise<void> {
  const size = quick ? 'quick' : 'full';
  const dir = mkdtempSync(join(tmpdir(), 'bench-peers-'));
  const stops: (() => Promise<void> | void)[] = [];
  try {
    const upstream = await startServer('upstream.ts');
    stops.push(upstream.stop);
    const { child } = await startBenchProcess<{ ready: true }>('load.ts');
    stops.push(() => child.disconnect());
    const ask: AskLoad = ({ port, headers }, workload, seconds) =>
      new Promise((resolve, reject) => {
        child.once('message', (answer: { result?: LoadResult; error?: string }) =>
          answer.result === undefined ? reject(new Error(answer.error)) : resolve(answer.result),
        );
        const job = { port, connections: CONNECTIONS, seconds, workload: { ...workload, headers } };
        child.send({ kind: 'throughput', job });
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
    }
    const measured: PeerFigures[][] = [];
    for (const workload of WORKLOADS) measured.push(await measurePeers(peers, workload, ask, size, say));
    say('');
    const [conversations, small] = measured;
    const result: PeersResult = {
      ...takeProvenance(),
      suite: 'peers',
      peers: small!,
      conversations: conversations!,
    };
    print(result, readLastResult<PeersResult>('peers', result));
    if (save) console.log(`\n${saveResult(result)}`);
  } finally {
    for (const stop of stops.reverse()) await stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Measures one workload in rounds, one peer after the other. Peers that fail a request of the warm-up are omitted. */
async function measurePeers(
  peers: readonly Peer[],
  workload: Workload,
  ask: AskLoad,
  size: 'full' | 'quick',
  say: (what: string) => void,
): Promise<PeerFigures[]> {
  type Sample = Pick<PeerFigures, 'per_s' | 'p99_ms' | 'cpu_us'>;
  const rounds = new Map<Peer, Sample[]>();
  for (const peer of peers) {
    say(`${workload.kind}: warming ${peer.name} up`);
    const { answered, failed } = await ask(peer, workload, WARM_UP_S[size]);
    if (answered > 0 && failed === 0) rounds.set(peer, []);
    else console.log(`${peer.name} is left out of ${workload.kind}: ${answered} answered, ${failed} failed`);
  }
  for (let round = 0; round < ROUNDS[size]; round++) {
    for (const [peer, samples] of rounds) {
      say(`${workload.kind}, round ${round + 1}: ${peer.name}`);
      const before = readCpuUs(peer.pid);
      const { answered, failed, requestsPerS, latencyUs } = await ask(peer, workload, ROUND_S[size]);
      if (failed > 0) throw new Error(`${failed} requests through ${peer.name} failed`);
      // On a busy machine a slow peer may answer nothing within a round.
      const cpu_us = answered === 0 ? Number.NaN : (readCpuUs(peer.pid) - before) / answered;
      samples.push({ per_s: requestsPerS, p99_ms: latencyUs.p99 / 1_000, cpu_us });
    }
  }
  return [...rounds].map(([{ name, version, pid }, samples]): PeerFigures => {
    const median = (pick: (sample: Sample) => number) => takeMedian(samples.map(pick));
    const [per_s, p99_ms] = [median((sample) => sample.per_s), median((sample) => sample.p99_ms)];
    const cpu_us = median((sample) => sample.cpu_us);
    return { name, version, per_s, p99_ms, cpu_us, anon_bytes: readAnonBytes(pid) };
  });
}

function print({ peers, conversations, machine }: PeersResult, last: PeersResult | null): void {
  console.log(
    `${machine.cpu}, ${machine.cores} cores, load ${machine.load_average[0]!.toFixed(1)}; each with one worker or server thread`,
  );
  printTable('growing conversations of up to 600 KB', conversations, last?.conversations);
  printTable('bodies of 4 KB', peers, last?.peers);
}

function printTable(what: string, peers: readonly PeerFigures[], last: readonly PeerFigures[] = []): void {
  const gateway = peers.find(({ name }) => name === 'gateway')!;
  console.log(
    `\n${what}\n            requests/s   times gateway   p99 ms   µs of processor   memory   last time`,
  );
  for (const { name, version, per_s, p99_ms, cpu_us, anon_bytes } of peers) {
    const before = last.find((peer) => peer.name === name);
    const change =
      before === undefined ? '' : `${(per_s / before.per_s).toFixed(2)} of ${before.per_s.toFixed(0)}`;
    console.log(
      `${name.padEnd(10)} ${per_s.toFixed(0).padStart(11)} ${(per_s / gateway.per_s).toFixed(2).padStart(15)} ${p99_ms.toFixed(1).padStart(8)} ${cpu_us.toFixed(0).padStart(17)} ${`${(anon_bytes / 1e6).toFixed(0)} MB`.padStart(8)}   ${change} ${version}`,
    );
  }
}
