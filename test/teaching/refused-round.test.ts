/** The last round that could not publish: only an equal round gets its reason. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { readRefused, writeRefused } from '../../src/teaching/refused-round.ts';

const folder = mkdtempSync(join(tmpdir(), 'refused-round-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const gate = { target_error: 0.05, served_min: 12, sticky: false };
const before = { version: 3, made_at: '2026-03-01T10:00:00.000Z' };
const round = { fingerprint: 'runs', gate, before };

it('an equal round gets the reason, and a round that differs in anything that decides gets none', async () => {
  const out = join(folder, 'student');
  expect(await readRefused(out, round)).toBeNull();
  await writeRefused(out, round, 'it serves too little');
  expect(await readRefused(out, round)).toBe('it serves too little');
  const others = [
    { ...round, fingerprint: 'more runs' },
    ...[{ target_error: 0.1 }, { served_min: 13 }, { sticky: true }].map((over) => ({
      ...round,
      gate: { ...gate, ...over },
    })),
    { ...round, before: null },
    { ...round, before: { ...before, version: 4 } },
    { ...round, before: { ...before, made_at: '2026-03-02T10:00:00.000Z' } },
  ];
  for (const other of others) expect(await readRefused(out, other)).toBeNull();
  await writeRefused(out, others[0]!, 'it is wrong too often');
  expect(await readRefused(out, round)).toBeNull();
});

it('a damaged file counts as no file', async () => {
  const out = join(folder, 'damaged');
  await writeRefused(out, round, 'it serves too little');
  for (const text of ['{"round":', 'null', '{"round":7,"reason":null}']) {
    writeFileSync(join(`${out}.work`, 'refused.json'), text);
    expect(await readRefused(out, round)).toBeNull();
  }
});
