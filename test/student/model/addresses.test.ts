/** Addresses of pages in calls: a relative one becomes absolute if its base is known. */
import { describe, expect, it } from 'vitest';
import { spellAddresses } from '../../../src/student/model/addresses.ts';
import type { StudentBlock } from '../../../src/student/model/decision.ts';

const PAGE = 'https://shop.example/tea/list?page=2';

/**
 * Writes a call of the address after calls that opened these pages, the latest first.
 * @returns the address in the call
 */
function spell(url: string, opened: readonly string[], task = '', key = 'url'): unknown {
  const content: StudentBlock[] = [{ type: 'tool_call', id: '', name: 'open', input: { [key]: url } }];
  const calls = opened.map((address, at) => ({
    name: at === 0 ? 'call:open' : `call:open#${at}`,
    value: { url: address },
  }));
  const [block] = spellAddresses(content, { sources: [{ name: 'task', value: task }, ...calls] });
  return block?.type === 'tool_call' ? (block.input as Record<string, unknown>)[key] : undefined;
}

describe('the address of a page', () => {
  it('is absolute if the last page is known, or if the task names one site', () => {
    expect(spell('/tea/7', [PAGE])).toBe('https://shop.example/tea/7');
    expect(spell('7', [PAGE])).toBe('https://shop.example/tea/7');
    expect(spell('https://shop.example/tea/7', [PAGE])).toBe('https://shop.example/tea/7');
    expect(spell('3', ['/mugs/', PAGE])).toBe('https://shop.example/mugs/3');
    expect(spell('/tea/7', [], 'Look at https://shop.example, please.')).toBe('https://shop.example/tea/7');
  });

  it('differs from an address with another site, path or query', () => {
    const own = spell('/tea/7', [PAGE]);
    for (const other of ['https://other.example/tea/7', '/tea/7/', '/tea/7?size=2', '//other.example/tea/7'])
      expect(spell(other, [PAGE])).not.toBe(own);
  });

  it('stays as it is written if its base is unknown, or if it is no path to a page', () => {
    expect(spell('/tea/7', [])).toBe('/tea/7');
    expect(spell('/tea/7', [], 'https://a.example or https://b.example')).toBe('/tea/7');
    expect(spell('mailto:a@b.example', [PAGE])).toBe('mailto:a@b.example');
    expect(spell('/tea/7', [PAGE], '', 'path')).toBe('/tea/7');
  });
});
