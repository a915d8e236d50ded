/**
 * `understudy inspect --cache`: how the turns of one run, or of all, used the provider's prompt cache, and why they read less
 * than they could have. Main thread of the command line.
 */

import { CacheDoctor } from '../captures/cache-doctor.ts';
import { CacheSum } from '../captures/cache-sum.ts';
import { RunChains } from '../captures/run-chains.ts';
import type { CacheLook, PromptDifference } from '../domain/cache-miss.ts';
import { countOf } from '../std/count-of.ts';
import { formatCount, formatDollars, type InspectView, layOutPart } from './inspect-view.ts';
import { EXIT } from './io.ts';
import { formatJson, makeHarmlessLine } from './terminal-text.ts';

/**
 * Shows the turns of one run.
 * @returns the exit status: 1 for an unknown run
 */
export async function showRunCache(view: InspectView, runId: string): Promise<number> {
  const sum = new CacheSum();
  const looks: CacheLook[] = [];
  const doctor = new CacheDoctor(view.source, view.prices);
  for (const look of doctor.examineRun(runId)) {
    sum.add(look, runId);
    if (view.flags.json) looks.push(look);
    else await view.io.out(layOutLook(view, look));
  }
  const { value: first } = view.source.summaries({ run_id: runId })[Symbol.iterator]().next();
  if (first === undefined) {
    view.io.err(
      `understudy: the database has no run ${formatJson(runId, 0)}.\nWhich runs it has: understudy inspect\n`,
    );
    return EXIT.failed;
  }
  if (view.flags.json) {
    await view.io.out(`${formatJson({ run_id: runId, turns: looks, sum: sum.report() }, 2)}\n`);
    return EXIT.done;
  }
  await view.io.out(`\n${layOutSum(view, sum)}`);
  return EXIT.done;
}

/**
 * Sums all runs that continued since the given time.
 * @returns the exit status
 */
export async function showCache(view: InspectView): Promise<number> {
  const chains = new RunChains();
  await chains.addAll(view.source, ({ id }) => view.progress.tell('listing runs', id, view.count));
  const sum = new CacheSum();
  const doctor = new CacheDoctor(view.source, view.prices);
  const since = view.flags.since_ms ?? Number.NEGATIVE_INFINITY;
  let runs = 0;
  for (const { first_id, finished_ms } of chains.runs) {
    if (finished_ms < since) continue;
    const runId = view.source.exchange(first_id)?.run_id;
    if (typeof runId !== 'string') continue;
    for (const look of doctor.examineRun(runId)) sum.add(look, runId);
    runs += 1;
    view.progress.tell('examining runs', runs, chains.size);
    await view.source.release?.();
  }
  view.progress.clear();
  if (view.flags.json) await view.io.out(`${formatJson({ runs, ...sum.report() }, 2)}\n`);
  else await view.io.out(`${countOf(runs, 'run')}\n${layOutSum(view, sum)}`);
  return EXIT.done;
}

function layOutLook(view: InspectView, look: CacheLook): string {
  const { strong, dim, good, bad } = view.paint;
  const head = strong(`#${look.exchange_id}`);
  const read = `read ${formatCount(look.read_tokens)}`;
  switch (look.verdict) {
    case 'hit':
      return `${head}  ${good('hit')}    ${dim(`${read} of ${formatCount(look.expected_tokens)} tokens`)}\n`;
    case 'first':
      return `${head}  first  ${dim(`${read} tokens; no earlier prompt begins like it`)}\n`;
    case 'too_short':
      return `${head}  ${dim('short  too short to be cached')}\n`;
    case 'not_told':
      return `${head}  ${dim('?      the provider did not say what it read from its cache')}\n`;
    case 'miss': {
      const about = look.is_estimate ? 'about ' : '';
      const cost = look.cost_usd === null ? '' : `, ${formatDollars(look.cost_usd)}`;
      const lost = `lost ${about}${formatCount(look.lost_tokens)} tokens${cost}`;
      const against = dim(`(${read} of ${formatCount(look.expected_tokens)}, beside #${look.compared_with})`);
      const text = `${head}  ${bad('miss')}   ${lost} ${against}\n${layOutPart(view, 'why', look.words)}`;
      return look.difference === null ? text : text + layOutDifference(view, look.difference);
    }
  }
}

function layOutDifference(view: InspectView, { place, offset, before, after }: PromptDifference): string {
  const where = offset === 0 ? place : `${place}, after ${countOf(offset, 'character')}`;
  return (
    layOutPart(view, 'where', makeHarmlessLine(where)) +
    layOutPart(view, 'before', view.paint.dim(makeHarmlessLine(before) || '(nothing)')) +
    layOutPart(view, 'now', makeHarmlessLine(after) || '(nothing)')
  );
}

function layOutSum(view: InspectView, sum: CacheSum): string {
  const { turns, misses, lost_tokens, cost_usd, unpriced_misses, days, causes } = sum.report();
  const cost = cost_usd === null ? '' : `, ${formatDollars(cost_usd)}`;
  const unpriced =
    unpriced_misses === 0 ? '' : ` (${countOf(unpriced_misses, 'turn')} without a known price)`;
  const lost = misses === 0 ? '' : `: ${formatCount(lost_tokens)} tokens lost${cost}${unpriced}`;
  let text = `${countOf(turns, 'turn')}, ${formatCount(misses)} of them missed the cache${lost}\n`;
  for (const { words, place, misses: some, lost_tokens: tokens, cost_usd: usd, runs, agent } of causes) {
    const perDay = usd === null || days < 1 ? '' : `, ${formatDollars(usd / days)} a day`;
    const price = usd === null ? '' : `, ${formatDollars(usd)}${perDay}`;
    const where = place === null ? '' : ` (${place})`;
    text += `\n  ${view.paint.strong(makeHarmlessLine(`${words}${where}`))}\n`;
    text += layOutPart(view, 'lost', `${formatCount(tokens)} tokens in ${countOf(some, 'turn')}${price}`);
    if (agent !== '') text += layOutPart(view, 'agent', makeHarmlessLine(agent));
    text += layOutPart(view, 'runs', makeHarmlessLine(runs.join(', ')));
  }
  return text;
}
