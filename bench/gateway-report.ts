/** Prints the figures of the gateway's bench, and which goals they meet. Pure except for printing; bench process. */
import type { GatewayResult, LoadSample, ThroughputCell } from './gateway-result.ts';
import { PROXY_NAMES, type ProxyName } from './proxy-targets.ts';
import { takeMedian } from './quantiles.ts';
import type { TargetName } from './targets.ts';

/** The project's goals. */
const GOALS = {
  minRequestsAgainstNginx: 0.5,
  maxCpuAgainstNginx: 3,
  maxAddedP50Us: 150,
  streams: 512,
  maxLateP99Ms: 20,
  maxStallBytes: 10 * 1024 * 1024,
};

const MB = 1024 * 1024;

/** Prints a table as plain text with right-aligned numbers, which looks the same on a terminal and in a file. */
function printTable(heads: string[], rows: string[][]): void {
  const widths = heads.map((head, i) => Math.max(head.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: string[]): string =>
    cells
      .map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0)))
      .join('  ');
  console.log(line(heads));
  for (const row of rows) console.log(line(row));
}

const whole = (value: number): string =>
  Number.isNaN(value) ? '-' : Math.round(value).toLocaleString('en-US');
const fixed =
  (digits: number) =>
  (value: number): string =>
    Number.isNaN(value) ? '-' : value.toFixed(digits);
const kilobytes = (value: number): string => (Number.isNaN(value) ? '-' : `${(value / 1024).toFixed(2)} KB`);

function nameCell(cell: ThroughputCell): string {
  const body = cell.workload.kind === 'plain' ? `${cell.workload.bytes / 1024} KB` : 'conversations';
  return `${body} × ${cell.connections}`;
}

function medianOf(cell: ThroughputCell, target: TargetName, pick: (sample: LoadSample) => number): number {
  return takeMedian(cell.rounds.map((round) => (round[target] ? pick(round[target]) : Number.NaN)));
}

/** Divides the figure of `target` by that of `against` in each round. @returns the median of the ratios */
function medianRatio(
  cell: ThroughputCell,
  target: TargetName,
  against: TargetName,
  pick: (sample: LoadSample) => number,
): number {
  return takeMedian(
    cell.rounds.map((round) => {
      const [sample, reference] = [round[target], round[against]];
      return sample && reference ? pick(sample) / pick(reference) : Number.NaN;
    }),
  );
}

/** Lists the six threads of the target that used most processor time per request, the largest first. */
function describeThreads(cell: ThroughputCell, target: TargetName): string {
  const sums = new Map<string, number>();
  let answered = 0;
  for (const round of cell.rounds) {
    const sample = round[target];
    if (!sample) continue;
    answered += sample.answered;
    for (const [thread, us] of Object.entries(sample.threadCpuUs))
      sums.set(thread, (sums.get(thread) ?? 0) + us);
  }
  return [...sums]
    .map(([thread, us]) => ({ thread: thread.slice(thread.indexOf('/') + 1), us: us / answered }))
    .filter(({ us }) => us >= 1)
    .sort((a, b) => b.us - a.us)
    .slice(0, 6)
    .map(({ thread, us }) => `${thread} ${us.toFixed(0)}`)
    .join(', ');
}

function printLatency(result: GatewayResult): void {
  for (const { bytes, targets, failures } of result.latency) {
    console.log(`\nOne request at a time, ${bytes / 1024} KB each way, microseconds (added: over direct)`);
    const direct = targets.direct;
    printTable(
      ['', 'p50', 'p99', 'p99.9', 'added p50', 'added p99', 'added p99.9'],
      Object.entries(targets).map(([name, q]) => [
        name,
        whole(q.p50),
        whole(q.p99),
        whole(q.p999),
        ...(direct && name !== 'direct'
          ? [whole(q.p50 - direct.p50), whole(q.p99 - direct.p99), whole(q.p999 - direct.p999)]
          : ['', '', '']),
      ]),
    );
    for (const [name, why] of Object.entries(failures))
      console.log(`${name} FAILED after ${targets[name]?.count}: ${why}`);
  }
}

function printThroughput(result: GatewayResult): void {
  const cells = [
    ...result.throughput.map((cell) => ({ cell, over: '' })),
    ...result.tls.map((cell) => ({ cell, over: ' over TLS' })),
  ];
  for (const { cell, over } of cells) {
    console.log(`\n${nameCell(cell)} connections${over}, at full speed, medians of ${cell.rounds.length}`);
    printTable(
      [
        '',
        'requests/s',
        '/ nginx',
        'CPU µs/req',
        '/ nginx',
        'p50 ms',
        'p99 ms',
        'p99.9 ms',
        'failed',
        'backlog',
      ],
      result.plan.targets.map((name) => [
        name,
        whole(medianOf(cell, name, (s) => s.requestsPerS)),
        fixed(2)(medianRatio(cell, name, 'nginx', (s) => s.requestsPerS)),
        whole(medianOf(cell, name, (s) => s.cpuUsPerRequest)),
        fixed(2)(medianRatio(cell, name, 'nginx', (s) => s.cpuUsPerRequest)),
        fixed(2)(medianOf(cell, name, (s) => s.latencyUs.p50 / 1000)),
        fixed(2)(medianOf(cell, name, (s) => s.latencyUs.p99 / 1000)),
        fixed(2)(medianOf(cell, name, (s) => s.latencyUs.p999 / 1000)),
        whole(cell.rounds.reduce((sum, round) => sum + (round[name]?.failed ?? 0), 0)),
        whole(Math.max(...cell.rounds.map((round) => round[name]?.backlog ?? 0))),
      ]),
    );
    const threads = describeThreads(cell, 'gateway');
    if (threads) console.log(`gateway by thread, µs a request: ${threads}`);
  }
  if (result.wrk.length > 0) {
    console.log('\nCross-check with wrk, about 3 KB up and 4 KB down × 32 connections');
    printTable(
      ['', 'requests/s', '/ nginx'],
      result.plan.targets.map((name) => [
        name,
        whole(takeMedian(result.wrk.map((round) => round.requestsPerS[name] ?? Number.NaN))),
        fixed(2)(
          takeMedian(
            result.wrk.map(
              (r) => (r.requestsPerS[name] ?? Number.NaN) / (r.requestsPerS.nginx ?? Number.NaN),
            ),
          ),
        ),
      ]),
    );
  }
}

function printMessages(result: GatewayResult): void {
  for (const { sockets, bytes, rounds } of result.messages) {
    console.log(
      `\nWebSocket, ${sockets} sockets, ${bytes} bytes echoed one at a time on each, medians of ${rounds.length}`,
    );
    type Sample = NonNullable<(typeof rounds)[number][TargetName]>;
    const median = (of: (round: (typeof rounds)[number]) => number): number => takeMedian(rounds.map(of));
    const pick = (name: TargetName, of: (sample: Sample) => number) =>
      median((round) => (round[name] ? of(round[name]) : Number.NaN));
    const ratio = (name: TargetName, of: (sample: Sample) => number) =>
      median(({ [name]: ours, nginx }) => (ours && nginx ? of(ours) / of(nginx) : Number.NaN));
    printTable(
      ['', 'messages/s', '/ nginx', 'CPU µs/message', '/ nginx', 'p50 µs', 'p99 µs', 'added p50'],
      result.plan.targets
        .filter((name) => rounds.some((round) => round[name]))
        .map((name) => [
          name,
          whole(pick(name, (s) => s.messagesPerS)),
          fixed(2)(ratio(name, (s) => s.messagesPerS)),
          fixed(1)(pick(name, (s) => s.cpuUs / s.messages)),
          fixed(2)(ratio(name, (s) => s.cpuUs / s.messages)),
          whole(pick(name, (s) => s.latencyUs.p50)),
          whole(pick(name, (s) => s.latencyUs.p99)),
          name === 'direct'
            ? ''
            : whole(
                median((round) =>
                  round[name] && round.direct
                    ? round[name].latencyUs.p50 - round.direct.latencyUs.p50
                    : Number.NaN,
                ),
              ),
        ]),
    );
  }
}

function printProxied(result: GatewayResult): void {
  for (const { tunnels, bytes, rounds } of result.proxied) {
    console.log(
      `\nThrough HTTPS_PROXY, ${bytes / 1024} KB over ${tunnels} tunnels, TLS on both sides, medians of ${rounds.length}`,
    );
    type Sample = NonNullable<(typeof rounds)[number][ProxyName]>;
    const pick = (name: ProxyName, of: (sample: Sample) => number) =>
      takeMedian(rounds.map(({ [name]: sample }) => (sample ? of(sample) : Number.NaN)));
    printTable(
      ['', 'requests/s', 'CPU µs/req', 'p50 ms', 'p99 ms', 'open p50 ms', 'open p99 ms'],
      PROXY_NAMES.filter((name) => rounds.some((round) => round[name])).map((name) => [
        name,
        whole(pick(name, (s) => s.requestsPerS)),
        whole(pick(name, (s) => s.cpuUs / s.answered)),
        fixed(2)(pick(name, (s) => s.latencyUs.p50 / 1000)),
        fixed(2)(pick(name, (s) => s.latencyUs.p99 / 1000)),
        fixed(2)(pick(name, (s) => s.openUs.p50 / 1000)),
        fixed(2)(pick(name, (s) => s.openUs.p99 / 1000)),
      ]),
    );
  }
}

function printExports(result: GatewayResult): void {
  for (const { connections, bytes, rounds, exported } of result.exports) {
    console.log(
      `\nExport of spans, ${bytes / 1024} KB × ${connections} connections, alternating, medians of ${rounds.length}`,
    );
    const row = (way: 'off' | 'on') => {
      const pick = (of: (sample: LoadSample) => number) => takeMedian(rounds.map((round) => of(round[way])));
      return [
        way,
        whole(pick((s) => s.requestsPerS)),
        whole(pick((s) => s.cpuUsPerRequest)),
        fixed(2)(pick((s) => s.latencyUs.p50 / 1000)),
        fixed(2)(pick((s) => s.latencyUs.p99 / 1000)),
        whole(rounds.reduce((sum, { [way]: { failed } }) => sum + failed, 0)),
      ];
    };
    printTable(['', 'requests/s', 'CPU µs/req', 'p50 ms', 'p99 ms', 'failed'], [row('off'), row('on')]);
    const speed = takeMedian(rounds.map(({ on, off }) => on.requestsPerS / off.requestsPerS));
    console.log(
      `on / off: ${fixed(2)(speed)} of the requests per second; ${whole(exported.exchanges)} exchanges were exported as ${whole(exported.spans)} spans, ${whole(exported.waiting)} were still queued`,
    );
  }
}

function printStreams(result: GatewayResult): void {
  for (const cell of result.streams) {
    console.log(
      `\n${cell.streams} streams of 64 frames paced at 20 ms, lateness in ms, medians of ${cell.rounds.length}`,
    );
    const pick = (
      name: TargetName,
      of: (s: NonNullable<(typeof cell.rounds)[number][TargetName]>) => number,
    ): number[] => cell.rounds.map((round) => (round[name] ? of(round[name]) : Number.NaN));
    const sum = (values: number[]): number => values.reduce((a, b) => a + b, 0);
    const directP50 = takeMedian(pick('direct', (s) => s.lateMs.p50));
    const directP99 = takeMedian(pick('direct', (s) => s.lateMs.p99));
    printTable(
      [
        '',
        'frames',
        'lost',
        'failed',
        'p50',
        'p99',
        'max',
        'added p50',
        'added p99',
        'CPU µs/frame',
        'upstream p99',
      ],
      result.plan.targets.map((name) => {
        const p50 = takeMedian(pick(name, (s) => s.lateMs.p50));
        const p99 = takeMedian(pick(name, (s) => s.lateMs.p99));
        return [
          name,
          whole(sum(pick(name, (s) => s.frames))),
          whole(sum(pick(name, (s) => s.lost))),
          whole(sum(pick(name, (s) => s.failed))),
          fixed(2)(p50),
          fixed(2)(p99),
          fixed(2)(Math.max(...pick(name, (s) => s.lateMs.max))),
          name === 'direct' ? '' : fixed(2)(p50 - directP50),
          name === 'direct' ? '' : fixed(2)(p99 - directP99),
          fixed(1)(takeMedian(pick(name, (s) => s.cpuUs / s.frames))),
          fixed(2)(takeMedian(pick(name, (s) => s.paceMs.p99))),
        ];
      }),
    );
  }
}

function printStalls(result: GatewayResult): void {
  if (result.stalls.length === 0) return;
  console.log(`\nA client that stops reading a 200 MB answer for ${result.plan.stallMs / 1000} s`);
  const mb = (value: number): string => fixed(1)(value / MB);
  printTable(
    [
      '',
      'RSS before MB',
      'growth MB',
      'anonymous MB',
      'then read MB',
      'intact',
      'growth reading MB',
      'cut seen after ms',
    ],
    result.stalls.map((stall) => [
      stall.target,
      mb(stall.rssBefore),
      mb(stall.growthBytes),
      mb(stall.anonGrowthBytes),
      mb(stall.receivedBytes),
      stall.intact ? 'yes' : 'NO',
      mb(stall.growthReadingBytes),
      stall.cutAfterMs === null ? 'never' : fixed(1)(stall.cutAfterMs),
    ]),
  );
}

function printCapture(result: GatewayResult): void {
  if (result.capture.length === 0) return;
  console.log('\nCapture');
  printTable(
    [
      '',
      'attempted',
      'captured',
      'dropped',
      'disk an exchange',
      'gzip alone',
      'peak RSS MB: gateway',
      'forwarder',
      'node-http',
      'nginx',
    ],
    result.capture.map((totals) => [
      totals.group,
      whole(totals.attempted),
      whole(totals.captured),
      whole(totals.dropped),
      kilobytes(totals.diskBytesPerExchange),
      kilobytes(totals.gzipBytesPerExchange),
      ...(['gateway', 'forwarder', 'node-http', 'nginx'] as const).map((name) =>
        whole((totals.peakRssBytes[name] ?? Number.NaN) / MB),
      ),
    ]),
  );
  if (result.capture.some((totals) => totals.forwarderCaptured)) {
    console.log(
      'note: the forwarder captured although GW_CAPTURE=off was set; its row shows a gateway with capture',
    );
  }
}

interface Verdict {
  goal: string;
  found: string;
  met: boolean;
}

/** Compares the result with every goal for which it has figures. */
function judge(result: GatewayResult): Verdict[] {
  const verdicts: Verdict[] = [];
  const add = (goal: string, found: string, met: boolean): void => {
    verdicts.push({ goal, found, met });
  };
  const plain = result.throughput.filter((cell) => cell.workload.kind === 'plain');
  for (const cell of result.plan.targets.includes('nginx') ? plain : []) {
    const speed = medianRatio(cell, 'gateway', 'nginx', (s) => s.requestsPerS);
    const cpu = medianRatio(cell, 'gateway', 'nginx', (s) => s.cpuUsPerRequest);
    if (Number.isNaN(speed)) continue;
    const name = nameCell(cell);
    add(
      `${name}: requests/s at least 0.50 of nginx's`,
      speed.toFixed(2),
      speed >= GOALS.minRequestsAgainstNginx,
    );
    add(`${name}: CPU a request at most 3.00 of nginx's`, cpu.toFixed(2), cpu <= GOALS.maxCpuAgainstNginx);
  }
  for (const { bytes, targets } of result.latency) {
    if (!targets.gateway || !targets.direct) continue;
    const added = targets.gateway.p50 - targets.direct.p50;
    add(
      `${bytes / 1024} KB: added p50 at most 150 µs`,
      `${added.toFixed(0)} µs`,
      added <= GOALS.maxAddedP50Us,
    );
  }
  for (const cell of result.streams.filter((each) => each.streams === GOALS.streams)) {
    const samples = cell.rounds.flatMap((round) => (round.gateway ? [round.gateway] : []));
    if (samples.length === 0) continue;
    const lost = samples.reduce((sum, sample) => sum + sample.lost + sample.failed, 0);
    const p99 = takeMedian(samples.map((sample) => sample.lateMs.p99));
    add('512 streams: no frame lost', `${lost} lost`, lost === 0);
    const direct = takeMedian(cell.rounds.map((round) => round.direct?.lateMs.p99 ?? Number.NaN));
    // The figure without a proxy is shown for comparison, because on a busy machine frames are late even without a
    // proxy.
    const found = `${p99.toFixed(1)} ms (direct ${fixed(1)(direct)})`;
    add('512 streams: p99 late by at most 20 ms', found, p99 <= GOALS.maxLateP99Ms);
  }
  for (const stall of result.stalls.filter((each) => each.target === 'gateway')) {
    add(
      'stalled reader: under 10 MB',
      `${(stall.growthBytes / MB).toFixed(1)} MB`,
      stall.growthBytes < GOALS.maxStallBytes,
    );
    add(
      'stalled reader: then every byte',
      stall.intact ? 'all' : `${stall.receivedBytes} bytes`,
      stall.intact,
    );
  }
  for (const totals of result.capture) {
    add(
      `${totals.group}: nothing dropped`,
      `${totals.dropped} of ${totals.attempted}`,
      totals.attempted > 0 && totals.dropped === 0,
    );
  }
  return verdicts;
}

/** Prints the whole report; returns true if every goal was met. */
export function printGatewayReport(result: GatewayResult): boolean {
  const { machine } = result;
  console.log(
    `Gateway bench, ${result.date}, commit ${result.commit}${result.dirty ? ' with changes' : ''}, ${result.elapsed_s.toFixed(0)} s\n` +
      `${machine.cpu}, ${machine.cores} cores, ${(machine.memory_bytes / 1024 ** 3).toFixed(0)} GB, ${machine.kernel}, ` +
      `Node ${machine.node}, nginx ${result.nginx ?? 'absent'}, load average ${machine.load_average.map((l) => l.toFixed(1)).join(' ')}`,
  );
  printLatency(result);
  printThroughput(result);
  printMessages(result);
  printProxied(result);
  printExports(result);
  printStreams(result);
  printStalls(result);
  printCapture(result);
  const verdicts = judge(result);
  if (verdicts.length > 0) {
    console.log('\nGoals, with capture on');
    printTable(
      ['', 'found', ''],
      verdicts.map(({ goal, found, met }) => [goal, found, met ? 'met' : 'MISSED']),
    );
  }
  return verdicts.every(({ met }) => met);
}
