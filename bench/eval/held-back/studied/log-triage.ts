/** An agent on call that reads logs and deployments after an alert. Responses API, streamed. Pure; bench process. */

import { createPrng, type Prng } from '../../../../src/std/prng.ts';
import {
  bad,
  ending,
  type FreeText,
  good,
  type HeldBackAgent,
  type Move,
  only,
  type Result,
  type Run,
  type RunKind,
  type ToolCall,
  type Turn,
  tool,
  type WantedCall,
} from '../held-back-agent.ts';
import { callsOf } from '../turns.ts';
import { between, pick, word } from '../wording.ts';

const SERVICES = [
  'checkout',
  'search',
  'mailer',
  'billing',
  'uploads',
  'sessions',
  'catalogue',
  'thumbnails',
];
const OWNERS: Readonly<Record<string, string>> = {
  'db-orders': 'storage',
  'cache-main': 'platform',
  'geo-api': 'maps',
  'auth-core': 'identity',
  'queue-jobs': 'platform',
};
const DEPENDENCIES = Object.keys(OWNERS);

type Cause = 'memory' | 'deploy' | 'dependency' | 'noise';

interface Incident {
  alert: string;
  service: string;
  cause: Cause;
  pod: string;
  dependency: string;
  /** Newest last. */
  versions: { version: string; at: string; stable: boolean }[];
  hour: string;
}

const TOOLS = [
  tool('query_logs', 'Gives the last lines of a service.', { service: 'string', lines: 'integer?' }),
  tool('list_deploys', 'Lists what was deployed, newest last.', { service: 'string' }),
  tool('get_owner', 'Says which team a service or dependency belongs to.', { name: 'string' }),
  tool('restart_pod', 'Restarts one pod of a service.', { service: 'string', pod: 'string' }),
  tool('rollback', 'Deploys an earlier version of a service.', { service: 'string', version: 'string' }),
  tool('page_team', 'Wakes the people of a team.', { team: 'string', summary: 'string' }),
  tool('close_alert', 'Closes an alert with a note.', { alert_id: 'string', note: 'string' }),
];

function makeIncident(prng: Prng, kind: RunKind): Incident {
  const service = pick(prng, SERVICES);
  const major = between(prng, 1, 9);
  const [minor, hour] = [between(prng, 3, 60), between(prng, 1, 22)];
  const causes: Cause[] =
    kind === 'restricted' ? ['memory', 'deploy'] : ['memory', 'deploy', 'deploy', 'dependency', 'noise'];
  const versions = [2, 1, 0].map((back, at) => ({
    version: `${major}.${minor - back}.${prng.below(9)}`,
    at: `${String(Math.max(0, hour - 2 * back)).padStart(2, '0')}:${between(prng, 10, 59)}`,
    stable: at === 0,
  }));
  return {
    alert: `AL-${between(prng, 1_000, 9_999)}`,
    service,
    cause: pick(prng, causes),
    pod: `${service}-${between(prng, 1_000, 9_999).toString(16)}-${pick(prng, ['x7k', 'q2m', 'z9d', 'h4t'])}`,
    dependency: pick(prng, DEPENDENCIES),
    versions,
    hour: String(hour).padStart(2, '0'),
  };
}

function writeLog(prng: Prng, { cause, pod, dependency, versions, hour, service }: Incident): string {
  const at = (minute: number): string =>
    `${hour}:${String(minute).padStart(2, '0')}:${between(prng, 10, 59)}`;
  const usual = (minute: number): string =>
    `${at(minute)} INFO ${pod} ${pick(prng, ['GET /items', 'POST /orders', 'GET /health', 'PUT /profile'])} 200 ${between(prng, 3, 90)}ms`;
  const lines: Readonly<Record<Cause, readonly string[]>> = {
    memory: [
      `${at(31)} WARN ${pod} heap at ${between(prng, 93, 99)} %`,
      `${at(33)} ERROR ${pod} OutOfMemoryError: cannot allocate ${between(prng, 8, 64)} MB`,
      `${at(34)} ERROR ${pod} request failed: out of memory`,
    ],
    deploy: [
      `${at(30)} INFO ${pod} started ${service} ${versions.at(-1)!.version}`,
      `${at(31)} ERROR ${pod} TypeError: Cannot read properties of undefined (reading 'id')`,
      `    at handle (/srv/${service}/dist/routes.js:${between(prng, 20, 400)}:${between(prng, 5, 60)})`,
      `${at(32)} ERROR ${pod} 500 GET /items`,
    ],
    dependency: [
      `${at(31)} ERROR ${pod} timeout after 5000ms calling ${dependency}`,
      `${at(32)} ERROR ${pod} timeout after 5000ms calling ${dependency}`,
      `${at(33)} WARN ${pod} circuit open: ${dependency}`,
    ],
    noise: [`${at(31)} ERROR ${pod} client closed the connection`, usual(32), usual(33)],
  };
  return [usual(28), usual(29), ...lines[cause], usual(35)].join('\n');
}

const TASKS = [
  'Alert <alert>: {error rate|errors} of <service> {above|over} <share> %{ for 5 minutes|}.',
  '[<alert>] <service>: {5xx at|failing requests:} <share> %. {Please handle it.|}',
  '{PagerDuty|Monitoring}: <alert> <service> is unhealthy (<share> % errors).',
];

class TriageRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #incident: Incident;
  readonly #log: string;
  readonly #kind: RunKind;
  #restarted = false;
  #version: string;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    this.#kind = kind;
    this.#incident = makeIncident(prng, kind);
    this.#log = writeLog(prng, this.#incident);
    this.#version = this.#incident.versions.at(-1)!.version;
    const { alert, service } = this.#incident;
    const rule =
      kind === 'restricted'
        ? pick(prng, [
            ' A change freeze is on: no restarts and no rollbacks. Page the team that owns the service instead.',
            ' Until Monday you may not restart or roll back anything; wake the owning team of the service.',
          ])
        : '';
    this.system = `You are on call. Read the logs of the service first. Out of memory: restart the pod. Errors since a deployment: roll back to the version before. A dependency that times out: page the team that owns it. A single harmless line: do nothing. Close the alert with a note at the end.${rule}`;
    this.task = word(prng, pick(prng, TASKS), { alert, service, share: String(between(prng, 4, 40)) });
  }

  perform({ name, input }: ToolCall): Result {
    const { service, pod, versions, alert } = this.#incident;
    const isOwn = input.service === service;
    switch (name) {
      case 'query_logs':
        return isOwn ? good(this.#log) : bad('no such service');
      case 'list_deploys':
        return isOwn ? good({ service, running: this.#version, deploys: versions }) : bad('no such service');
      case 'get_owner': {
        const team = input.name === service ? `team-${service}` : OWNERS[String(input.name)];
        return team === undefined ? bad('unknown') : good({ name: input.name, team });
      }
      case 'restart_pod':
        if (!isOwn || input.pod !== pod) return bad('no such pod');
        this.#restarted = true;
        return good({ pod, restarted: this.#restarted });
      case 'rollback':
        if (!versions.some(({ version }) => version === input.version)) return bad('no such version');
        this.#version = String(input.version);
        return good({ service, running: this.#version });
      case 'page_team':
        return good({ paged: input.team });
      case 'close_alert':
        return input.alert_id === alert ? good({ closed: true }) : bad('no such alert');
      default:
        return bad(`no tool ${name}`);
    }
  }

  isAlike(wanted: WantedCall, call: ToolCall): boolean {
    if (wanted.name !== call.name) return false;
    // Any number of lines is right, because the log is short.
    const { lines: _lines, ...input } = call.input;
    return Object.entries(wanted.input).every(
      ([field, value]) => field === 'lines' || input[field] === value,
    );
  }

  moves(turns: readonly Turn[]): Move[] {
    const { service, cause, alert } = this.#incident;
    if (callsOf(turns, 'query_logs').length === 0) return this.#look(service);
    const act = this.#act(turns);
    if (act !== null) return act;
    if (callsOf(turns, 'close_alert').length === 0)
      return only({ name: 'close_alert', input: { alert_id: alert }, free: { note: this.#words(cause) } });
    return ending(this.#words(cause));
  }

  #look(service: string): Move[] {
    const log = (lines: number): WantedCall => ({ name: 'query_logs', input: { service, lines } });
    return [
      { weight: 0.55, calls: [log(100)] },
      { weight: 0.25, calls: [log(200)] },
      { weight: 0.12, calls: [{ name: 'query_logs', input: { service } }] },
      { weight: 0.08, calls: [log(100), { name: 'list_deploys', input: { service } }] },
    ];
  }

  /** Lists the moves that are right now. @returns null: everything is done */
  #act(turns: readonly Turn[]): Move[] | null {
    const { service, cause, pod, dependency, versions } = this.#incident;
    const isDone = (name: string): boolean => callsOf(turns, name).length > 0;
    if (cause === 'noise') return null;
    const isFrozen = this.#kind === 'restricted';
    if (cause === 'dependency' || isFrozen) {
      const owner = isFrozen ? service : dependency;
      if (!isDone('get_owner')) return only({ name: 'get_owner', input: { name: owner } });
      const team = isFrozen ? `team-${service}` : OWNERS[dependency]!;
      return isDone('page_team')
        ? null
        : only({ name: 'page_team', input: { team }, free: { summary: this.#words(cause) } });
    }
    if (cause === 'memory')
      return isDone('restart_pod') ? null : only({ name: 'restart_pod', input: { service, pod } });
    if (!isDone('list_deploys')) return only({ name: 'list_deploys', input: { service } });
    // In a changed run, the model rolls back to the version that is marked stable.
    const target = this.#kind === 'changed' ? versions.find(({ stable }) => stable)! : versions.at(-2)!;
    return isDone('rollback')
      ? null
      : only({ name: 'rollback', input: { service, version: target.version } });
  }

  #words(cause: Cause): FreeText {
    const { service, pod, dependency, versions, alert } = this.#incident;
    const target = this.#kind === 'changed' ? versions.find(({ stable }) => stable)! : versions.at(-2)!;
    const values = {
      ...{ service, pod, dependency, alert, team: OWNERS[dependency]!, broken: versions.at(-1)!.version },
      target: target.version,
    };
    if (this.#kind === 'restricted')
      return cause === 'memory'
        ? {
            wordings: [
              '<service>: pod <pod> {is|runs} out of memory. {No restart because of the freeze.|Needs you, changes are frozen.|}',
            ],
            values,
            facts: { needs: [[/memory/], [service]], bars: [/\brestarted\b/] },
          }
        : {
            wordings: [
              '<service> <broken> {fails|throws TypeErrors} since its deployment. {Not rolled back because of the freeze.|}',
            ],
            values,
            facts: { needs: [[service], [/deploy|version|since|typeerror/]], bars: [/\brolled back to/] },
          };
    switch (cause) {
      case 'memory':
        return {
          wordings: [
            '{Restarted|I restarted} <pod>: {it was|it ran} out of memory.',
            'Pod <pod> {of <service> |}ran out of memory{ and was restarted|, restarted}.',
          ],
          values,
          facts: { needs: [[/memory/], [pod], [/restarted/]], bars: [/roll/] },
        };
      case 'deploy':
        return {
          wordings: [
            '{Rolled|I rolled} <service> back {from <broken> |}to <target>{: errors since the deployment|, because <broken> threw TypeErrors|}.',
            '<service> {is back on|runs} <target> after {a rollback|errors in <broken>}.',
          ],
          values,
          facts: { needs: [[values.target], [service]], bars: [/memory|paged/] },
        };
      case 'dependency':
        return {
          wordings: [
            '<service>: {calls to <dependency> time out|<dependency> does not answer}{; paged <team>|. Team <team> is paged|, team <team>}.',
            '{Timeouts from|Timeouts of} <dependency> {break|affect} <service>. {<team> {knows|was paged}.|}',
          ],
          values,
          facts: { needs: [[dependency]], bars: [/restarted|rolled/] },
        };
      case 'noise':
        return {
          wordings: [
            '{Noise|Harmless|False alarm}: {a client closed its connection|one closed connection}. {Nothing to do.|}',
            '{Only|Just} one client that closed its connection{, no action|}.',
          ],
          values,
          facts: { needs: [[/clos/]], bars: [/restarted|rolled|paged/] },
        };
    }
  }
}

export const logTriage: HeldBackAgent = {
  name: 'log triage',
  model: 'gpt-5.5',
  wire: 'responses',
  is_streaming: true,
  is_labelled: false,
  tools: TOOLS,
  asides: [
    '{Looking at|Reading} the logs.',
    '{Next|Now}: {the cause|the fix}.',
    'The log {shows|says} {it|what happened}.',
  ],
  aside_share: 0.25,
  names: SERVICES,
  start: (seed, kind) => new TriageRun(seed, kind),
};
