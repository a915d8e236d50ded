/**
 * The type check finds misspelt fields of the contract. In a copy of the dashboard, each of many components gets a
 * field with four wrong letters, and none of these components may compile.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import { PATIENCE_MS } from '../fixtures/patience.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'contract-fields-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A component, and a field of the contract that it reads or sends. */
const FIELDS = [
  ['pages/audit.tsx', 'actor'],
  ['pages/alerts.tsx', 'interval_s'],
  ['pages/billing.tsx', 'current_period_end'],
  ['pages/compare.tsx', 'cache_read_tokens'],
  ['pages/experiments.tsx', 'success_rate'],
  ['pages/findings.tsx', 'file_path'],
  ['pages/home.tsx', 'latency_p95_ms'],
  ['pages/keys.tsx', 'last_used_at'],
  ['pages/members.tsx', 'user_id'],
  ['pages/patterns.tsx', 'situation'],
  ['pages/projects.tsx', 'created_at'],
  ['pages/runs.tsx', 'listed_runs'],
  ['pages/settings.tsx', 'display_name'],
  ['pages/student.tsx', 'golden_runs_needed'],
  ['pages/costs.tsx', 'cache_share'],
  ['pages/usage.tsx', 'series'],
  ['ui/cache-finding.tsx', 'compared_with'],
  ['ui/cost.tsx', 'unpriced_turns'],
  ['ui/exchange-details.tsx', 'exchange_id'],
  ['ui/key-usage.tsx', 'requests'],
  ['ui/month-meter.tsx', 'period_end'],
  ['ui/retention.tsx', 'looks_every_s'],
  ['ui/run-badges.tsx', 'student_turns'],
  ['ui/run-end.tsx', 'ended_by'],
  ['ui/conversation.tsx', 'exchange_id'],
  ['ui/run-family.tsx', 'parent_run_id'],
  ['ui/run-head.tsx', 'started_at'],
  ['ui/run-row.tsx', 'max_total_score'],
  ['ui/run-steps.tsx', 'step_index'],
  ['ui/step-why.tsx', 'new_things'],
  ['ui/student-agents.tsx', 'suspended_by'],
  ['ui/student-ledger.tsx', 'saved_usd'],
  ['ui/turn-view.tsx', 'is_retry'],
] as const;

it('the dashboard does not compile with another name for a field of the contract', {
  timeout: 4 * PATIENCE_MS,
}, () => {
  cpSync(join(root, 'src'), join(folder, 'src'), {
    recursive: true,
    filter: (path) => !/default-model|dist$/.test(path),
  });
  for (const name of ['tsconfig.json', 'package.json']) cpSync(join(root, name), join(folder, name));
  for (const name of ['node_modules', 'native', 'actors'])
    symlinkSync(join(root, name), join(folder, name), 'dir');
  for (const [file, field] of FIELDS) {
    const path = join(folder, 'src/dashboard', file);
    const text = readFileSync(path, 'utf8');
    const changed = text.replaceAll(new RegExp(`\\b${field}\\b`, 'g'), `zqxj${field.slice(4)}`);
    expect(changed, `${file} has ${field}`).not.toBe(text);
    writeFileSync(path, changed);
  }
  const { stdout, status } = spawnSync(
    process.execPath,
    [join(root, 'node_modules/typescript/bin/tsc'), '-p', 'src/dashboard', '--noEmit', '--pretty', 'false'],
    { cwd: folder, encoding: 'utf8' },
  );
  expect(status).not.toBe(0);
  const failing = new Set(
    [...stdout.matchAll(/^src\/dashboard\/(\S+?)\(\d+,\d+\): error/gm)].map(([, at]) => at),
  );
  expect([...failing].filter((at) => at!.endsWith('.tsx')).sort()).toEqual(
    expect.arrayContaining(FIELDS.map(([file]) => file)),
  );
});
