/** Writes the stored turns of one run as a request of OTLP/JSON, without texts. Pure; capture reader, command line. */
import type { ExchangeRecord } from '../domain/exchange.ts';
import type { NormalTurn } from '../domain/turn.ts';
import { TurnSpans } from './turn-spans.ts';
import { type WrittenSpan, writeSpansJson } from './write-spans.ts';

/** A stored turn. `turn` is null if it cannot be read. */
interface StoredTurn {
  record: ExchangeRecord;
  turn: NormalTurn | null;
}

/** A constant instance, so that every export of a run has the same ids of spans and traces. */
const INSTANCE = 'export';
const SOURCE = {
  resource: { 'service.name': 'understudy' },
  scope: { name: 'understudy.export', version: '1' },
} as const;

/** Writes a request with the spans of the turns. @param turns the turns of one run, in order @returns null without spans */
export function writeRunSpans(turns: Iterable<StoredTurn>): Uint8Array | null {
  const spans = new TurnSpans({ instance: INSTANCE, has_content: false, servers: [] });
  const made: WrittenSpan[] = [];
  for (const { record, turn } of turns) made.push(...spans.make(record, turn));
  return made.length === 0 ? null : writeSpansJson(SOURCE, made);
}
