/** The dashboard's rules that need no browser: what is kept of what was read, texts as texts, Markdown. */
import { expect, it } from 'vitest';
import { keepEqual } from '../../src/dashboard/core/keep-equal.ts';
import { writeMarkdown } from '../../src/dashboard/core/markdown.ts';

it('keeps the parts of what was read that say the same', () => {
  const before = { rows: [{ id: 'a', of: { n: 1 } }, { id: 'b' }], total: 2 };
  expect(keepEqual(before, structuredClone(before))).toBe(before);
  const after = keepEqual(before, { rows: [{ id: 'c' }, { id: 'a', of: { n: 1 } }, { id: 'b' }], total: 3 });
  expect(after.rows.map(({ id }) => id)).toEqual(['c', 'a', 'b']);
  expect(after.rows[1]).toBe(before.rows[0]);
  expect(after.rows[2]).toBe(before.rows[1]);
  const changed = keepEqual(before, { rows: [{ id: 'a', of: { n: 2 } }, { id: 'b' }], total: 2 });
  expect(changed.rows[0]).toEqual({ id: 'a', of: { n: 2 } });
  expect(changed.rows[1]).toBe(before.rows[1]);
});

it('notices what is gone and what is new', () => {
  expect(keepEqual<object>({ a: 1, b: undefined }, { a: 1 })).toEqual({ a: 1 });
  expect(keepEqual<object>({ a: 1 }, { a: 1, b: undefined })).toEqual({ a: 1, b: undefined });
  expect(keepEqual<number[]>([1, 2, 3], [1, 2])).toEqual([1, 2]);
  expect(keepEqual<unknown>([], {})).toEqual({});
  expect(keepEqual<unknown>(null, { a: null })).toEqual({ a: null });
});

it('writes a conversation as Markdown that no text in it breaks', () => {
  const text = writeMarkdown(
    { run_id: 'r', task: 'mend it', models: ['m'], turns: 1 } as never,
    [
      {
        exchange_id: 1,
        model: 'm',
        error: null,
        messages_added: [{ role: 'user', content: [{ type: 'text', text: 'mend it' }] }],
        content: [{ type: 'tool_call', id: 'c', name: 'run', input: { code: '```\nx\n```' } }],
      },
      {
        exchange_id: 2,
        model: 'm',
        error: null,
        messages_added: [
          {
            role: 'tool',
            content: [
              {
                type: 'tool_result',
                call_id: 'c',
                name: 'run',
                is_error: true,
                content: [{ type: 'text', text: 'no' }],
              },
            ],
          },
        ],
        content: [{ type: 'text', text: 'done' }],
      },
    ] as never,
  );
  expect(text).toContain('**call** `run`\n\n````\n');
  expect(text.indexOf('**result** (failed)')).toBeLessThan(text.indexOf('done'));
  expect(text.match(/\*\*result\*\*/g)).toHaveLength(1);
});
