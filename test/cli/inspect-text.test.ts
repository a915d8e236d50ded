/** `understudy inspect QUERY` uses the gateway's full-text index, and says what is missing in the index. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runInspect } from '../../src/cli/inspect.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { makeExchange } from '../storage/captured.ts';
import { makeFolder } from '../storage/folder.ts';

function turn(run_id: string, prompt: string, answer: string) {
  const messages = [{ role: 'user', content: prompt }];
  const content = [{ type: 'text', text: answer }];
  return makeExchange({
    run_id,
    request_body: Buffer.from(JSON.stringify({ model: 'm', messages })),
    response_body: Buffer.from(JSON.stringify({ id: run_id, content, stop_reason: 'end_turn' })),
  });
}

async function inspect(...argv: string[]): Promise<{ status: number; out: string; err: string }> {
  const told = { out: '', err: '' };
  const status = await runInspect(argv, {
    out: async (data) => {
      told.out += typeof data === 'string' ? data : Buffer.from(data).toString();
    },
    err: (text) => {
      told.err += text;
    },
    is_terminal: false,
    has_color: false,
  });
  return { status, ...told };
}

it('inspect finds words and phrases of answers, and says how many exchanges it has not searched', async () => {
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({
    path,
    redact: true,
    decode: decodeExchange,
    has_text_index: true,
  });
  await log.append([turn('first', 'do it', 'the date parser fails')]);
  await log.append([turn('second', 'do it', 'the parser has a date')]);
  while ((await log.tidySome(decodeExchange, 1_000)).done > 0);
  await log.close();

  const find = async (query: string) => {
    const { status, out, err } = await inspect(query, '--db', path, '--json');
    expect(status, err).toBe(0);
    const { runs, searched } = JSON.parse(out) as { runs: { run_id: string }[]; searched: unknown };
    return { runs: runs.map(({ run_id }) => run_id).sort(), searched };
  };
  const whole = { not_searched: 0, cut: 0 };
  expect(await find('parser')).toEqual({ runs: ['first', 'second'], searched: whole });
  expect(await find('"date parser"')).toEqual({ runs: ['first'], searched: whole });
  expect(await find('model:m -"date parser"')).toEqual({ runs: ['second'], searched: whole });
  expect(await find('absentword')).toEqual({ runs: [], searched: whole });
  expect((await find('model:m')).searched).toBeNull();

  rmSync(`${path}.text`, { recursive: true });
  expect(await find('parser')).toEqual({ runs: [], searched: { not_searched: 2, cut: 0 } });
  expect((await inspect('parser', '--db', path)).out).toContain('2 exchanges not searched');
});
