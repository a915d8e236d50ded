/** A capture database in memory, with conversations that are made up for tests. */
import type { BodySide, ExchangeSource, ListedExchange } from '../../src/captures/exchange-source.ts';
import type { ApiShape, ExchangeRecord } from '../../src/domain/exchange.ts';
import { decodeExchange, type StoredExchange } from '../../src/providers/decode.ts';

/** The fields that a test sets; the others are made up or decoded from the bodies. */
export interface MadeExchange {
  run_id?: string | null;
  seq?: number | null;
  shape?: ApiShape | null;
  path?: string;
  status?: number;
  aborted?: boolean;
  truncated?: boolean;
  note?: string;
  request?: unknown;
  response?: unknown;
}

/** An ExchangeSource over given exchanges, which counts how often its bodies were read. */
export class MadeSource implements ExchangeSource {
  readonly records: ExchangeRecord[] = [];
  bodiesRead = 0;
  readonly #bodies = new Map<string, Uint8Array>();

  add(made: MadeExchange): ExchangeRecord {
    const id = this.records.length + 1;
    const shape = made.shape === undefined ? 'messages' : made.shape;
    const request = toBytes(made.request ?? '');
    const response = toBytes(made.response ?? '');
    const stored = {
      shape,
      path: made.path ?? '/v1/messages',
      status: made.status ?? 200,
      request_headers: [],
      response_headers: ['content-type', 'application/json'],
      request_body: request,
      response_body: response,
      truncated: made.truncated ?? false,
    };
    const facts = decodeExchange(stored);
    const record: ExchangeRecord = {
      id,
      run_id: made.run_id ?? null,
      seq: made.seq ?? null,
      note: made.note ?? '',
      provider: 'anthropic',
      kind: shape === null ? 'other' : 'turn',
      shape,
      method: 'POST',
      path: stored.path,
      query: '',
      status: stored.status,
      started_at: new Date(Date.UTC(2026, 0, 2, 3, 4, id)).toISOString(),
      first_byte_ms: 120,
      duration_ms: 1500,
      aborted: made.aborted ?? false,
      truncated: stored.truncated,
      undecodable: facts.undecodable,
      served_by: 'upstream',
      model: facts.model,
      stop_reason: facts.stop_reason,
      ...(facts.tools.length === 0 ? {} : { tools: facts.tools }),
      usage: facts.usage,
      request: { headers: [['content-type', 'application/json']], bytes: request.byteLength },
      response: { headers: [['content-type', 'application/json']], bytes: response.byteLength },
    };
    this.records.push(record);
    this.#bodies.set(`${id} request`, request);
    this.#bodies.set(`${id} response`, response);
    return record;
  }

  *exchanges(filter: { run_id?: string } = {}): Iterable<ExchangeRecord> {
    for (const record of this.records) {
      if (filter.run_id === undefined || record.run_id === filter.run_id) yield record;
    }
  }

  *summaries(filter: { run_id?: string; from_id?: number } = {}): Iterable<ListedExchange> {
    for (const record of this.exchanges(filter)) if (record.id >= (filter.from_id ?? 1)) yield record;
  }

  copy(id: number): StoredExchange | undefined {
    const record = this.exchange(id);
    if (record === undefined) return undefined;
    return {
      shape: record.shape,
      path: record.path,
      status: record.status,
      request_headers: record.request.headers.flat(),
      response_headers: record.response.headers.flat(),
      request_body: this.body(id, 'request')!,
      response_body: this.body(id, 'response')!,
      truncated: record.truncated,
    };
  }

  exchange(id: number): ExchangeRecord | undefined {
    const record = this.records[id - 1];
    return record?.id === id ? record : this.records.find((other) => other.id === id);
  }

  body(id: number, side: BodySide): Uint8Array | undefined {
    this.bodiesRead += 1;
    return this.#bodies.get(`${id} ${side}`);
  }
}

function toBytes(body: unknown): Uint8Array {
  if (body instanceof Uint8Array) return body;
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
}

const call = (id: string, input: object) => ({ type: 'tool_use', id, name: 'read_file', input });
const result = (id: string, text: string, isError = false) => ({
  role: 'user',
  content: [{ type: 'tool_result', tool_use_id: id, content: text, is_error: isError }],
});
const answer = (content: unknown[], stopReason: string) => ({
  id: `msg_${content.length}`,
  type: 'message',
  role: 'assistant',
  model: 'claude-x-20260101',
  content,
  stop_reason: stopReason,
  usage: { input_tokens: 100, output_tokens: 20, cache_read_input_tokens: 7, cache_creation_input_tokens: 3 },
});

const OPENING = [{ role: 'user', content: 'Mend the parser.' }];
const FIRST = [{ type: 'text', text: 'I read it first.' }, call('toolu_1', { path: 'parser.ts' })];
const SECOND = [call('toolu_2', { path: 'missing.ts' })];

/**
 * Adds a run of three turns with two tool calls. The provider refuses the second request once as overloaded, so there
 * are four exchanges.
 */
export function addToolLoop(source: MadeSource, runId: string | null, labelled: boolean): void {
  const request = (messages: unknown[]) => ({ model: 'claude-x', system: 'You mend code.', messages });
  const afterFirst = [
    ...OPENING,
    { role: 'assistant', content: FIRST },
    result('toolu_1', 'export const x = 1;'),
  ];
  const afterSecond = [
    ...afterFirst,
    { role: 'assistant', content: SECOND },
    result('toolu_2', 'no such file', true),
  ];
  const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
  const steps: MadeExchange[] = [
    { request: request(OPENING), response: answer(FIRST, 'tool_use') },
    { request: request(afterFirst), response: overloaded, status: 529 },
    { request: request(afterFirst), response: answer(SECOND, 'tool_use') },
    {
      request: request(afterSecond),
      response: answer([{ type: 'text', text: 'Done: one line.' }], 'end_turn'),
    },
  ];
  steps.forEach((step, i) => {
    source.add({ ...step, run_id: runId, seq: labelled ? i + 1 : null, note: 'baseline' });
  });
}
