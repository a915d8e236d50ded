/**
 * Turns under paths that do not name a wire format: the real decoders find it from the bodies in a real capture file.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { decodeExchange } from '../../src/providers/decode.ts';
import { normalizeTurn } from '../../src/providers/normal-turn.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

const JSON_TYPE = 'application/json';
const asked = [{ role: 'user', content: 'Where is it?' }];
const said = 'It is here.';
const message = {
  type: 'message',
  role: 'assistant',
  content: [{ type: 'text', text: said }],
  stop_reason: 'end_turn',
};
const events = (...values: unknown[]) => values.map((value) => `data: ${JSON.stringify(value)}\n\n`).join('');

/** Path, request, answer, its media type, and the expected wire format. */
const CASES: [path: string, request: unknown, response: unknown, type: string, shape: string | null][] = [
  ['/run/agent-7', { model: 'm', messages: asked }, message, JSON_TYPE, 'messages'],
  [
    '/run/agent-7',
    { model: 'm', messages: asked },
    {
      object: 'chat.completion',
      choices: [{ message: { role: 'assistant', content: said }, finish_reason: 'stop' }],
    },
    JSON_TYPE,
    'chat_completions',
  ],
  [
    '/run',
    { model: 'm', messages: asked, stream: true },
    events({
      object: 'chat.completion.chunk',
      choices: [{ delta: { content: said }, finish_reason: 'stop' }],
    }),
    'text/event-stream',
    'chat_completions',
  ],
  [
    '/run',
    { model: 'm', input: 'Where is it?' },
    {
      object: 'response',
      status: 'completed',
      output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: said }] }],
    },
    JSON_TYPE,
    'responses',
  ],
  [
    '/run',
    { model: 'm', prompt: 'Where' },
    { object: 'text_completion', choices: [{ text: said }] },
    JSON_TYPE,
    'completion',
  ],
  [
    '/run',
    { contents: [{ role: 'user', parts: [{ text: 'Where is it?' }] }] },
    { candidates: [{ content: { parts: [{ text: said }] }, finishReason: 'STOP' }] },
    JSON_TYPE,
    'gemini',
  ],
  [
    '/tenant/model/anthropic.claude/converse',
    { messages: [{ role: 'user', content: [{ text: 'Where is it?' }] }] },
    { output: { message: { role: 'assistant', content: [{ text: said }] } }, stopReason: 'end_turn' },
    JSON_TYPE,
    'bedrock_converse',
  ],
  // Similar requests that are not turns.
  ['/run/embeddings', { model: 'm', input: 'x' }, { object: 'list', data: [] }, JSON_TYPE, null],
  ['/run', { model: 'm', input: 'x' }, { object: 'list', data: [{ object: 'embedding' }] }, JSON_TYPE, null],
  ['/v1/messages/count_tokens', { model: 'm', messages: asked }, { input_tokens: 3 }, JSON_TYPE, null],
  ['/v1/messages/batches', { requests: [] }, message, JSON_TYPE, null],
  ['/telemetry', { messages: asked }, { ok: true }, JSON_TYPE, null],
  ['/telemetry', 'messages', message, JSON_TYPE, null],
  ['/telemetry', { messages: asked }, '{"type":"mess', JSON_TYPE, null],
];

it('an exchange is a turn if request and answer agree', async () => {
  const path = join(makeFolder(), 'capture.mdb');
  const bytes = (body: unknown) => Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const exchanges = [
    ...CASES.map(([path, request, response, type]) =>
      makeExchange({
        ...{ kind: 'other', shape: null, path },
        request_body: bytes(request),
        response_body: bytes(response),
        response_headers: ['content-type', type],
      }),
    ),
    // A failed request, and one that is not a POST, cannot be recognized.
    makeExchange({
      kind: 'other',
      shape: null,
      path: '/run',
      status: 500,
      request_body: bytes(CASES[0]![1]),
    }),
    makeExchange({
      ...{ kind: 'other', shape: null, path: '/run', method: 'PUT' },
      request_body: bytes(CASES[0]![1]),
      response_body: bytes(message),
    }),
  ];
  onTestFinished(() => rmSync(join(path, '..'), { recursive: true }));
  const store = async (file: string, reads: boolean) => {
    const log = await CaptureLog.open({
      path: file,
      redact: true,
      ...(reads ? { decode: decodeExchange } : {}),
    });
    await log.append(exchanges);
    if (!reads) while ((await log.indexSome(decodeExchange, 1_000)) > 0);
    await log.close();
    const reader = CaptureReader.open(file);
    const found = [...reader.exchanges()];
    const texts = found.map(({ id }) => normalizeTurn(reader.copy(id)!)?.answer.content);
    await reader.close();
    return { found, texts };
  };
  const after = await store(path, true);
  expect(await store(join(path, '..', 'later.mdb'), false)).toEqual(after);
  const wanted = [...CASES.map(([, , , , shape]) => shape), null, null];
  expect(after.found.map(({ shape }) => shape)).toEqual(wanted);
  expect(after.found.map(({ kind }) => kind)).toEqual(
    wanted.map((shape) => (shape === null ? 'other' : 'turn')),
  );
  expect(after.found.map(({ run_id }) => run_id !== null)).toEqual(wanted.map((shape) => shape !== null));
  for (const [at, shape] of wanted.entries())
    expect(after.texts[at]).toEqual(shape === null ? undefined : [{ type: 'text', text: said }]);
});
