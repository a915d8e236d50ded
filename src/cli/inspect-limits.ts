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
  if (limit.resets_at !== null) text += layOutPart(view, 'resets', describeTime(limit.resets_at, nowMs));
  if (limit.runs_out_at !== null)
    text += layOutPart(
      view,
      'runs out',
      bad(`${describeTime(limit.runs_out_at, nowMs)} at the pace of the last hour`),
    );
  text += layOutPart(view, 'as of', describeTime(limit.read_at, nowMs));
  const used_by = runs.map(({ run_id, tokens }) => `${run_id} (${formatCount(tokens)} tokens)`).join(', ');
  return used_by === '' ? text : text + layOutPart(view, 'runs', makeHarmlessLine(used_by));
}

function describeTime(time: string, nowMs: number): string {
  const ms = Date.parse(time) - nowMs;
  return `${time} (${ms < 0 ? `${formatMs(-ms)} ago` : `in ${formatMs(ms)}`})`;
}
