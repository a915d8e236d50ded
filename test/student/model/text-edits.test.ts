/** When two edits of a file are the same. */
import { describe, expect, it } from 'vitest';
import { answersAgree } from '../../../src/student/model/agreement.ts';
import type { StudentBlock } from '../../../src/student/model/decision.ts';
import { spellEdits } from '../../../src/student/model/text-edits.ts';

const FILE = 'function add(a, b) {\n  const sum = a - b;\n  return sum;\n}\n';
const step = (text: string) => ({ sources: [{ name: 'result:read', value: text }] });

function edit(old_text: string, new_text: string, path = 'add.js'): StudentBlock[] {
  return [{ type: 'tool_call', id: '', name: 'edit', input: { path, old_text, new_text } }];
}

function areSame(a: StudentBlock[], b: StudentBlock[], text = FILE): boolean {
  const spell = (content: StudentBlock[]) => ({ content: [...spellEdits(content, step(text))] });
  return answersAgree(spell(a), spell(b));
}

describe('an edit of a file that the step holds', () => {
  it('is the same with more or fewer of the lines around it', () => {
    const short = edit('a - b', 'a + b');
    expect(areSame(short, edit('  const sum = a - b;', '  const sum = a + b;'))).toBe(true);
    expect(areSame(short, edit('sum = a - b;\n  return', 'sum = a + b;\n  return'))).toBe(true);
  });

  it('is a different edit if a single character of the file would differ', () => {
    const short = edit('a - b', 'a + b');
    expect(areSame(short, edit('a - b', 'a +  b'))).toBe(false);
    expect(areSame(short, edit('  const sum = a - b;', 'const sum = a + b;'))).toBe(false);
    expect(areSame(short, edit('return sum', 'return a + b'))).toBe(false);
    expect(areSame(short, edit('a - b', 'a + b', 'other.js'))).toBe(false);
  });

  it('is a different edit if the same line is added at another place', () => {
    const file = 'one\ntwo\none\nthree\n';
    expect(areSame(edit('two\n', 'two\nnew\n'), edit('three\n', 'three\nnew\n'), file)).toBe(false);
    expect(areSame(edit('two\n', 'two\nnew\n'), edit('two', 'two\nnew'), file)).toBe(true);
  });

  it('is compared as it is written if its place is ambiguous', () => {
    const [short, long] = [edit('a - b', 'a + b'), edit('= a - b', '= a + b')];
    expect(areSame(short, long, `${FILE}${FILE}`)).toBe(false);
    expect(areSame(short, long, 'another file')).toBe(false);
    expect(areSame(short, long, `${FILE}\n…\nthe end`)).toBe(false);
    expect(areSame(short, short, 'another file')).toBe(true);
  });
});
