/**
 * `understudy inspect --exchange`: one exchange with its headers, as text or as JSON, or one of its bodies unchanged.
 * Main thread of the command line.
 */

import { readTurn } from '../captures/inspect.ts';
import { describeEnd } from '../domain/end-cause.ts';
import type { ExchangeRecord, ExchangeSide } from '../domain/exchange.ts';
import { countOf } from '../std/count-of.ts';
import { type InspectView, layOutHead, layOutPart } from './inspect-view.ts';
import { EXIT } from './io.ts';
import { formatJson, makeHarmless, makeHarmlessLine, measureWidth } from './terminal-text.ts';

/**
 * Shows one exchange.
 * @returns the exit status: 1 for an unknown exchange, or if its body is not stored
 */
export async function showExchange(view: InspectView, id: number): Promise<number> {
  const { raw } = view.flags;
  const body = raw === null ? undefined : view.source.body(id, raw);
  if (body !== undefined) {
    await view.io.out(body);
    return EXIT.done;
  }
  const record = view.source.exchange(id);
  if (record === undefined) {
    view.io.err(
      `understudy: the database has no exchange ${id}.\nTo list its exchanges: understudy inspect --json\n`,
    );
    return EXIT.failed;
  }
  if (raw !== null) {
    view.io.err(`understudy: the ${raw} body of exchange ${id} is not stored.\n`);
    return EXIT.failed;
  }
  await view.io.out(view.flags.json ? `${formatJson(record, 2)}\n` : layOutExchange(view, record));
  return EXIT.done;
}

/** Says how long a body is, and why it was not stored, if it was not. */
function tellBody({ bytes, withheld }: ExchangeSide): string {
  return `${countOf(bytes, 'byte')}${withheld === undefined ? '' : `, not kept: ${withheld}`}`;
}

function layOutExchange(view: InspectView, record: ExchangeRecord): string {
  const { dim, bad } = view.paint;
  const fields: [string, string][] = [
    ['run', record.run_id ?? '-'],
    ['seq', record.seq === null ? '-' : `${record.seq}`],
    ['note', record.note === '' ? '-' : record.note],
    ['provider', record.provider],
    ['kind', record.shape === null ? record.kind : `${record.kind} (${record.shape})`],
    ['query', record.query === '' ? '-' : record.query],
    ['started', record.started_at],
    ['served by', record.served_by],
    ...(record.relegation === undefined
      ? []
      : [['student', `${record.relegation.decision} (--step ${record.id} says more)`] as [string, string]]),
    ['stop', record.stop_reason ?? '-'],
    ...(record.end_cause === undefined
      ? []
      : [['ended', `${record.end_cause}: ${describeEnd(record.end_cause)}`] as [string, string]]),
    ['request', tellBody(record.request)],
    ['response', tellBody(record.response)],
  ];
  let text = `${layOutHead(view, record, null)}\n`;
  for (const [name, value] of fields) text += `  ${dim(name.padEnd(9))} ${makeHarmlessLine(value)}\n`;
  if (record.undecodable) {
    const problem = readTurn(view.source, record.id)?.problem ?? '';
    text += layOutPart(
      view,
      'unread',
      bad(makeHarmless(problem === '' ? 'the body could not be read' : problem)),
    );
  }
  text += layOutHeaders(view, 'request headers', record.request.headers);
  text += layOutHeaders(view, 'response headers', record.response.headers);
  text += dim(`\nBodies: --exchange ${record.id} --raw request, --raw response\n`);
  return text;
}

function layOutHeaders(view: InspectView, title: string, headers: [name: string, value: string][]): string {
  const shown = headers.map(([name, value]) => [makeHarmlessLine(name), makeHarmlessLine(value)] as const);
  const width = shown.reduce((widest, [name]) => Math.max(widest, measureWidth(name)), 0);
  const lines = shown.map(([name, value]) => `  ${view.paint.dim(name.padEnd(width))}  ${value}\n`);
  return `\n${view.paint.strong(title)}\n${lines.join('')}`;
}
