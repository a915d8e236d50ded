/**
 * kill -9 of a process that stores findings, again and again: acknowledged findings are there, deleted ones are not.
 */

import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Finding } from '../../src/domain/finding.ts';
import {
  type CodebaseRow,
  codebaseRow,
  FINDINGS,
  FINDINGS_CODEBASES,
  FINDINGS_INDEXED,
} from '../../src/domain/finding-rows.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { FindingsHost } from '../fixtures/findings-host.ts';
import { WordEmbedder } from '../fixtures/word-embedder.ts';
import { makeFolder } from '../storage/folder.ts';

/** Runs the writer until it has printed this many lines, and kills it. @returns the printed lines */
function killAfter(path: string, first: number, lines: number): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const file = join(import.meta.dirname, 'findings-writer.ts');
    const child = spawn(process.execPath, [file, path, String(first)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let said = '';
    child.stdout.on('data', (part: Buffer) => {
      said += part.toString('latin1');
      if (said.split('\n').length > lines) child.kill('SIGKILL');
    });
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (signal !== 'SIGKILL') reject(new Error(`the writer ended by itself: ${code}`));
      else resolve(said.split('\n').slice(0, -1));
    });
  });
}

describe('kill -9 of a process that stores findings', () => {
  it('loses nothing acknowledged, restores nothing deleted, and leaves no partial finding', async () => {
    const path = join(makeFolder(), 'main.mdb');
    const stored = new Set<number>();
    const deleted = new Set<number>();
    let first = 0;
    let kills = 0;
    for (const lines of [60, 35, 110, 80]) {
      for (const line of await killAfter(path, first, lines)) {
        const n = Number(line.slice(1));
        if (line.startsWith('+')) stored.add(n);
        else deleted.add(n);
        first = Math.max(first, n + 1);
      }
      // A request in progress at the kill may have succeeded, so the next numbers leave a gap.
      first += 10;

      const tables = new LmdbTables(path, 'disk');
      const found = new Set<number>();
      for (const codebase_id of ['c0', 'c1', 'c2']) {
        const codebase = { org_id: 'org', codebase_id };
        const prefix = codebaseRow(codebase);
        const findings = [...tables.range<Finding>(FINDINGS, { prefix })];
        const indexed = [...tables.range(FINDINGS_INDEXED, { prefix })];
        expect(indexed.map(({ row }) => row)).toEqual(findings.map(({ row }) => row));
        const { count, next_seq } = tables.get<CodebaseRow>(FINDINGS_CODEBASES, prefix)!;
        expect(count).toBe(findings.length);
        expect(next_seq).toBeGreaterThan(findings.at(-1)!.row[2] as number);
        for (const { value } of findings) found.add(Number(value.content.split(' ').at(-1)));
      }
      // At each kill, one deletion may have succeeded without an answer.
      const missing = [...stored].filter((n) => !found.has(n) && !deleted.has(n));
      expect(missing.filter((n) => n % 5 !== 1)).toEqual([]);
      expect(missing.length).toBeLessThanOrEqual(++kills);
      for (const n of deleted) expect(found.has(n), `deleted ${n}`).toBe(false);

      const embedder = new WordEmbedder('words', 4_096);
      const host = new FindingsHost(tables, embedder);
      const scope = { org_id: 'org', codebase_id: 'c0', project_id: null };
      const newest = [...found].filter((n) => n % 3 === 0 && n % 4 !== 0).at(-1)!;
      const [vector] = await embedder.embed([`finding number ${newest}`]);
      const { hits } = await host.client.recall(scope, vector!, {
        top_k: 1,
        score_threshold: 0.99,
        file_path: null,
        finding_type: null,
      });
      expect(hits.map((hit) => host.client.rows.find(scope, hit)?.content)).toEqual([
        `finding number ${newest}`,
      ]);
      host.close();
      await tables.close();
    }
    expect(deleted.size).toBeGreaterThan(20);
  });
});
