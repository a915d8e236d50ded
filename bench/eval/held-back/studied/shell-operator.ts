/**
 * An operator that has only a shell. Commands are compared by what they show or change on a small simulated host, so
 * another spelling of a command counts as the same. Messages API, streamed. Pure; bench process.
 */

import { isDeepStrictEqual } from 'node:util';
import { createPrng, type Prng } from '../../../../src/std/prng.ts';
import {
  bad,
  ending,
  type FreeText,
  good,
  type HeldBackAgent,
  type Move,
  type Result,
  type Run,
  type RunKind,
  type ToolCall,
  type Turn,
  tool,
  type WantedCall,
} from '../held-back-agent.ts';
import { between, pick, shuffle, word } from '../wording.ts';

const HOSTS = ['web-1', 'web-2', 'db-3', 'mail-1', 'build-7', 'cache-2'];
const UNITS = ['nginx', 'postfix', 'redis', 'haproxy', 'grafana', 'gitea'];
const APPS = ['shop', 'forum', 'wiki', 'tracker', 'portal'];

type Job = 'disk' | 'unit' | 'count';

/** A command's effect: what it shows, or what it changes. */
type Effect =
  | { does: 'df' | 'kill' | 'list ports' | 'unknown'; on?: string }
  | { does: 'du' | 'truncate' | 'status' | 'journal' | 'restart' | 'count' | 'remove'; on: string };

interface Host {
  name: string;
  job: Job;
  app: string;
  unit: string;
  pid: string;
  port: number;
  /** Paths of log files with their sizes in MB. */
  logs: { path: string; mb: number }[];
  used: number;
  count: number;
  code: number;
}

const TOOLS = [
  tool('bash', 'Runs a command on the host as root and gives its output.', { command: 'string' }),
];

const TASKS: Readonly<Record<Job, readonly string[]>> = {
  disk: [
    '{The disk of|Disk on} <host> is {almost full|at <used> %}. {Please make room.|Free some space.}',
    '<host>: / {fills up|is nearly full}. Clean up {the logs|what is safe}{, please|}.',
  ],
  unit: [
    '<unit> {on|at} <host> is down. {Bring it up again.|Please fix it.}',
    '{Users say that|Monitoring says} <unit> on <host> {does not answer|is dead}.',
  ],
  count: [
    'How many requests of <app> ended with <code>{ on <host>|}? {See|Look at} {the access log|/var/log/<app>/access.log}.',
    'Count the <code> responses in the access log of <app>{ on <host>|}.',
  ],
};

function makeHost(prng: Prng, kind: RunKind): Host {
  const app = pick(prng, APPS);
  const big = shuffle(prng, ['debug.log', 'trace.log', 'worker.log', 'access.log.1']);
  return {
    name: pick(prng, HOSTS),
    job: pick(
      prng,
      kind === 'restricted'
        ? (['disk', 'unit'] as const)
        : (['disk', 'disk', 'unit', 'unit', 'count'] as const),
    ),
    app,
    unit: pick(prng, UNITS),
    pid: String(between(prng, 1_200, 32_000)),
    port: pick(prng, [80, 443, 6379, 3000, 8080]),
    logs: big
      .map((name, at) => ({
        path: `/var/log/${app}/${name}`,
        mb: at === 0 ? between(prng, 3_000, 9_000) : between(prng, 1, 300),
      }))
      .toSorted((a, b) => a.path.localeCompare(b.path)),
    used: between(prng, 91, 99),
    count: between(prng, 0, 400),
    code: pick(prng, [500, 502, 503, 404]),
  };
}

class OperatorRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #kind: RunKind;
  readonly #host: Host;
  /** Effects that changed the host, in their order. */
  readonly #done: Effect[] = [];

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    this.#host = makeHost(prng, kind);
    const { name, job, app, unit, used, code } = this.#host;
    const rule =
      kind === 'restricted'
        ? pick(prng, [
            ' You may only look today: change nothing, and say what should be done.',
            ' This host is frozen. Do not delete, kill or restart anything; report what you find.',
          ])
        : '';
    this.system = `You operate ${name}. Look before you change something. Full disk: find the largest log and empty it. A unit that is down: read its journal; when another process has its port, kill that process and restart the unit. Say at the end in one sentence what you did.${rule}`;
    this.task = word(prng, pick(prng, TASKS[job]), {
      host: name,
      app,
      unit,
      used: String(used),
      code: String(code),
    });
  }

  get #largest(): { path: string; mb: number } {
    return this.#host.logs.reduce((most, each) => (each.mb > most.mb ? each : most));
  }

  /** Reads the effect of a command. */
  #effectOf(command: unknown): Effect {
    const text = String(command)
      .trim()
      .replace(/^sudo /, '')
      .replaceAll(/\s+/g, ' ')
      .replaceAll(
        / ?(2>&1|--no-pager|\| sort -h[r]?|\| sort -n[r]?|\| head(?: -n?)? ?-?\d*|\| tail -n? ?\d+)/g,
        '',
      );
    const { app } = this.#host;
    const rules: readonly [RegExp, (found: RegExpExecArray) => Effect][] = [
      [/^df(?: -[hT]+)*(?: \/)?$/, () => ({ does: 'df' })],
      [
        /^du (?:-[a-z]+ |--max-depth=1 |-d ?1 )*(\/var\/log\/[a-z]+)(?:\/\*|\/)?$/,
        ([, on]) => ({ does: 'du', on: on! }),
      ],
      [/^ls (?:-[a-zA-Z]+ )+(\/var\/log\/[a-z]+)\/?$/, ([, on]) => ({ does: 'du', on: on! })],
      [
        /^(?:truncate (?:-s ?0|--size[= ]0)|: ?>|cat \/dev\/null >|>) ?(\/\S+)$/,
        ([, on]) => ({ does: 'truncate', on: on! }),
      ],
      [/^rm (?:-f )?(\/\S+)$/, ([, on]) => ({ does: 'remove', on: on! })],
      [/^systemctl status ([a-z]+)(?:\.service)?$/, ([, on]) => ({ does: 'status', on: on! })],
      [
        /^journalctl (?:-[a-z]+ )*-u ([a-z]+)(?:\.service)?(?: -n ?\d+| -xe| -e)*$/,
        ([, on]) => ({ does: 'journal', on: on! }),
      ],
      [/^systemctl restart ([a-z]+)(?:\.service)?$/, ([, on]) => ({ does: 'restart', on: on! })],
      [/^systemctl start ([a-z]+)(?:\.service)?$/, ([, on]) => ({ does: 'restart', on: on! })],
      [/^kill (?:-9 |-TERM |-15 |-KILL )?(\d+)$/, ([, on]) => ({ does: 'kill', on: on! })],
      [
        /^(?:grep -c|grep) ["']? ?(\d{3}) ?["']? \/var\/log\/([a-z]+)\/access\.log(?: \| wc -l)?$/,
        ([, code, on]) => ({ does: 'count', on: `${on} ${code}` }),
      ],
      [
        /^awk '\$9 ?== ?"?(\d{3})"?(?: ?\{ ?(?:n|c)\+\+ ?\} END ?\{ ?print (?:n|c)\+0 ?\})?' \/var\/log\/([a-z]+)\/access\.log(?: \| wc -l)?$/,
        ([, code, on]) => ({ does: 'count', on: `${on} ${code}` }),
      ],
    ];
    for (const [pattern, read] of rules) {
      const found = pattern.exec(text);
      if (found !== null) return read(found);
    }
    return { does: 'unknown', on: `${app} ${text}` };
  }

  perform({ name, input }: ToolCall): Result {
    if (name !== 'bash') return bad(`no tool ${name}`);
    const effect = this.#effectOf(input.command);
    const { logs, unit, pid, port, count, app, code } = this.#host;
    const isEmptied = this.#done.some(({ does }) => does === 'truncate' || does === 'remove');
    switch (effect.does) {
      case 'df':
        return good(
          `Filesystem Size Used Avail Use% Mounted on\n/dev/sda1 20G ${isEmptied ? '9.1' : '19'}G ${isEmptied ? '10' : '0.9'}G ${isEmptied ? 48 : this.#host.used}% /`,
        );
      case 'du':
        return effect.on === `/var/log/${app}`
          ? good(logs.map(({ path, mb }) => `${mb}M\t${path}`).join('\n'))
          : bad('no such file or directory');
      case 'truncate':
      case 'remove':
        if (!logs.some(({ path }) => path === effect.on)) return bad('no such file or directory');
        this.#done.push(effect);
        return good('');
      case 'status':
        return good(
          this.#isUp ? `${unit}.service active (running)` : `${unit}.service failed (Result: exit-code)`,
        );
      case 'journal':
        return good(
          `${unit}[911]: starting\n${unit}[911]: bind() to 0.0.0.0:${port} failed (98: Address already in use), held by pid ${pid}\nsystemd[1]: ${unit}.service: Failed with result 'exit-code'.`,
        );
      case 'kill':
        if (effect.on !== pid) return bad('no such process');
        this.#done.push(effect);
        return good('');
      case 'restart':
        this.#done.push(effect);
        return this.#isUp ? good('') : bad(`Job for ${unit}.service failed`);
      case 'count':
        return effect.on === `${app} ${code}` ? good(String(count)) : good('0');
      default:
        return bad('bash: command not understood');
    }
  }

  get #isUp(): boolean {
    const at = this.#done.findIndex(({ does }) => does === 'kill');
    return at >= 0 && this.#done.slice(at).some(({ does }) => does === 'restart');
  }

  isAlike(wanted: WantedCall, call: ToolCall): boolean {
    return (
      wanted.name === call.name &&
      isDeepStrictEqual(this.#effectOf(wanted.input.command), this.#effectOf(call.input.command))
    );
  }

  /** Makes the moves that run a command. @param spellings spellings of one command; the first is the usual one */
  #run(...spellings: string[]): Move[] {
    const weights = [0.7, 0.2, 0.1];
    return spellings.map((command, at) => ({
      weight: weights[at] ?? 0,
      calls: [{ name: 'bash', input: { command } }],
    }));
  }

  moves(turns: readonly Turn[]): Move[] {
    const { job, app, unit, pid, code } = this.#host;
    const done = turns.flatMap(({ answer, results }) =>
      answer.calls.flatMap((call, at) =>
        results[at]!.is_error ? [] : [this.#effectOf(call.input.command).does],
      ),
    );
    const isDone = (does: Effect['does']): boolean => done.includes(does);
    const isFrozen = this.#kind === 'restricted';
    if (job === 'count')
      return isDone('count')
        ? ending(this.#tell())
        : this.#run(
            `grep -c ' ${code} ' /var/log/${app}/access.log`,
            `grep ' ${code} ' /var/log/${app}/access.log | wc -l`,
            `awk '$9 == ${code}' /var/log/${app}/access.log | wc -l`,
          );
    if (job === 'disk') {
      if (!isDone('df')) return this.#run('df -h', 'df -h /');
      if (!isDone('du'))
        return this.#run(
          `du -sh /var/log/${app}/* | sort -h`,
          `du -ah /var/log/${app} | sort -hr | head -20`,
          `ls -lhS /var/log/${app}`,
        );
      if (isFrozen) return ending(this.#tell());
      const { path } = this.#largest;
      if (!isDone('truncate') && !isDone('remove'))
        // In a changed run, the model removes the file.
        return this.#kind === 'changed'
          ? this.#run(`rm ${path}`, `rm -f ${path}`)
          : this.#run(`truncate -s 0 ${path}`, `: > ${path}`);
      return done.lastIndexOf('df') > done.indexOf('du')
        ? ending(this.#tell())
        : this.#run('df -h', 'df -h /');
    }
    if (!isDone('status'))
      return this.#run(`systemctl status ${unit}`, `systemctl status ${unit} --no-pager`);
    if (!isDone('journal'))
      return this.#run(`journalctl -u ${unit} -n 20`, `journalctl -u ${unit} -n 50 --no-pager`);
    if (isFrozen) return ending(this.#tell());
    if (!isDone('kill')) return this.#run(`kill ${pid}`, `kill -TERM ${pid}`);
    if (!isDone('restart')) return this.#run(`systemctl restart ${unit}`, `systemctl start ${unit}`);
    if (done.lastIndexOf('status') < done.indexOf('restart'))
      return this.#run(`systemctl status ${unit}`, `systemctl status ${unit} --no-pager`);
    return ending(this.#tell());
  }

  #tell(): FreeText {
    const { job, name, app, unit, pid, port, count, code } = this.#host;
    const { path, mb } = this.#largest;
    const values = {
      host: name,
      app,
      unit,
      pid,
      port: String(port),
      count: String(count),
      code: String(code),
      path,
      mb: String(mb),
    };
    const isFrozen = this.#kind === 'restricted';
    if (job === 'count')
      return {
        wordings: [
          '<count> {requests|responses} of <app> ended with <code>.',
          '{There were|I count} <count> {responses with <code>|<code> responses}{ in the access log of <app>|}.',
        ],
        values,
        facts: { needs: [[values.count]] },
      };
    if (job === 'disk')
      return isFrozen
        ? {
            wordings: [
              'The largest log is <path> (<mb> MB). {It should be emptied.|I changed nothing.}',
              '<path> takes <mb> MB{ of the disk|} and should be emptied.',
            ],
            values,
            facts: { needs: [[path]], bars: [/\b(i|have) emptied|\bfreed\b|removed/] },
          }
        : {
            wordings: [
              '{Emptied|I emptied} <path> (<mb> MB){; the disk is at 48 % now|. The disk has room again|}.',
              '{The disk of <host>|<host>} {has room again|is at 48 %}: <path> {was|had} grown to <mb> MB.',
            ],
            values,
            facts: { needs: [[path]], bars: [/should|nothing/] },
          };
    return isFrozen
      ? {
          wordings: [
            '<unit> {cannot start|is down} because process <pid> {has|holds} port <port>. {I changed nothing.|That process should be killed.}',
          ],
          values,
          facts: { needs: [[pid], [unit]], bars: [/\b(i|was) killed|running again|is up/] },
        }
      : {
          wordings: [
            '{Killed|I killed} process <pid>, which {had|held} port <port>, and restarted <unit>.',
            '<unit> {runs|is running} again{ on <host>|}: process <pid> {had|held} its port.',
          ],
          values,
          facts: { needs: [[pid], [unit]], bars: [/should|cannot/] },
        };
  }
}

export const shellOperator: HeldBackAgent = {
  name: 'shell operator',
  model: 'claude-opus-5',
  wire: 'messages',
  is_streaming: true,
  is_labelled: true,
  tools: TOOLS,
  asides: ["{I'll|Let me} {look first|check this|have a look}.", '{Now|Next}: {the cause|the fix|a check}.'],
  aside_share: 0.4,
  names: [],
  start: (seed, kind) => new OperatorRun(seed, kind),
};
