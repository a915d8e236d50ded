/** `understudy inspect --limits`: what is left of providers' limits. Main thread of the command line. */

import { type LimitAhead, LimitTraffic } from '../captures/limits-ahead.ts';
import { formatCount, formatMs, type InspectView, layOutPart } from './inspect-view.ts';
import { EXIT } from './io.ts';
import { formatJson, makeHarmlessLine } from './terminal-text.ts';

/** Shows the limits, the most used first. @returns the exit status */
export async function showLimits(view: InspectView, nowMs: number): Promise<number> {
  let lastId = 0;
  for (const { id } of view.source.summaries()) {
    lastId = id;
    view.progress.tell('listing exchanges', id, view.count);
  }
  const report = new LimitTraffic().tell(view.source, { first_id: 1, last_id: lastId }, nowMs);
  view.progress.clear();
  if (view.flags.json) {
    await view.io.out(`${formatJson(report, 2)}\n`);
    return EXIT.done;
  }
  if (report.limits.length === 0) await view.io.out('No answer of the last 24 hours reported a limit.\n');
  for (const limit of report.limits) await view.io.out(layOutLimit(view, limit, nowMs));
  if (!report.is_whole)
    view.io.err(
      'understudy: there are more exchanges or credentials than were read; limits may be missing\n',
    );
  return EXIT.done;
}

function layOutLimit(view: InspectView, limit: LimitAhead, nowMs: number): string {
  const { strong, bad, dim } = view.paint;
  const { provider, credential, name, used_share: used, remaining, limit: most, runs } = limit;
  const share = used === null ? '' : `${Math.round(used * 100)} % used`;
  const count = remaining === null ? '' : `${formatCount(remaining)} of ${formatCount(most)} left`;
  const head = [
    strong(makeHarmlessLine(name)),
    share,
    count,
    dim(
      makeHarmlessLine(
        `${provider}, ${credential === null ? 'without a credential' : `credential ${credential}`}`,
      ),
    ),
  ];
  let text = `${head.filter((part) => part !== '').join('  ')}\n`;
  text += layOutPart(view, 'reported', describeTime(limit.read_at, nowMs));
  if (limit.resets_at !== null) {
    const label = isPast(limit.resets_at, nowMs) ? 'reset' : 'resets';
    text += layOutPart(view, label, describeTime(limit.resets_at, nowMs));
  }
  if (limit.runs_out_at !== null) {
    const [label, words] = describeEnd(limit, limit.runs_out_at, nowMs);
    text += layOutPart(view, label, bad(words));
  }
  const used_by = runs.map(({ run_id, tokens }) => `${run_id} (${formatCount(tokens)} tokens)`).join(', ');
  return used_by === '' ? text : text + layOutPart(view, 'runs', makeHarmlessLine(used_by));
}

/** Says when a limit is used up. A limit that is used up has no pace. */
function describeEnd({ used_share }: LimitAhead, end: string, nowMs: number): [label: string, words: string] {
  const time = describeTime(end, nowMs);
  if (used_share !== null && used_share >= 1) return ['used up', time];
  return [isPast(end, nowMs) ? 'ran out' : 'runs out', `${time} at the pace of the hour before the report`];
}

function isPast(time: string, nowMs: number): boolean {
  return Date.parse(time) < nowMs;
}

function describeTime(time: string, nowMs: number): string {
  const ms = Date.parse(time) - nowMs;
  return `${time} (${ms < 0 ? `${formatMs(-ms)} ago` : `in ${formatMs(ms)}`})`;
}
