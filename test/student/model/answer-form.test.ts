/** Names of an answer's form: its kind, the calls before it, and the arguments chosen or the outcome told. */
import { describe, expect, it } from 'vitest';
import { kindOfForm, namesOfForm } from '../../../src/student/model/answer-form.ts';
import type { StudentBlock } from '../../../src/student/model/decision.ts';

const step = (stage: string) => ({
  stage,
  sources: [
    { name: 'task', value: 'Please check INV-12 from Kettle.' },
    { name: 'system', value: 'Hold it with the code PRICE or BANK.' },
  ],
});
const call = (name: string, input: unknown): StudentBlock => ({ type: 'tool_call', id: '', name, input });
const text = (words: string): StudentBlock => ({ type: 'text', text: words });

describe('the form of an answer', () => {
  it('contains the arguments that were chosen, and none that the step provides', () => {
    const hold = call('hold', { invoice: 'INV-12', vendor: 'Kettle', code: 'PRICE', urgent: true });
    expect(namesOfForm([hold], step('look'))).toEqual([
      'hold',
      'hold after look',
      'hold after look with code=PRICE, urgent=true',
    ]);
    expect(namesOfForm([call('look', { invoice: 'INV-12' })], step('task'))).toEqual([
      'look',
      'look after task',
    ]);
  });

  it('contains the outcome of a text, in any wording', () => {
    const [, , held] = namesOfForm([text('INV-12 was declined.')], step('hold'));
    expect(held).toBe(namesOfForm([text('I rejected INV-12.')], step('hold'))[2]);
    expect(namesOfForm([text('INV-12 was approved.')], step('hold'))[2]).not.toBe(held);
    expect(namesOfForm([text('Hello.')], step('task'))).toEqual(['text', 'text after task']);
  });

  it('belongs to a kind, even if its name is long', () => {
    const calls = [call('read_the_file', {}), call('read_the_file', {}), call('note', { how: 'loud' })];
    const stages = [`${'a_long_name '.repeat(40)}x`, `${'a_long_name '.repeat(40)}y`];
    const names = stages.flatMap((stage) => namesOfForm(calls, step(stage)));
    expect(new Set(names).size).toBe(5);
    for (const name of names) {
      expect(name.length).toBeLessThanOrEqual(200);
      expect(kindOfForm(name)).toBe('read_the_file (several) + note');
    }
  });
});
