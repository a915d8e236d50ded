/** The rest of a golden run can prove that another answer is right, too. */
import { describe, expect, it } from 'vitest';
import type { StudentBlock } from '../../src/student/model/decision.ts';
import { isShownByRest as isShown } from '../../src/teaching/run-proof.ts';

const call = (name: string, id = 'A-1'): StudentBlock => ({
  type: 'tool_call',
  id: 'c-1',
  name,
  input: { id },
});
const text: StudentBlock = { type: 'text', text: 'Done.' };
const later = (stage: string, ...content: StudentBlock[]) => ({ step: { stage }, answer: { content } });
type Step = ReturnType<typeof later>;
const isShownByRest = (
  given: StudentBlock[],
  golden: StudentBlock[],
  rest: Step[],
  before: Step[] = [],
): boolean => isShown(given, [...before, later('task', ...golden), ...rest], before.length);

describe('an answer that the golden run gives after its first calls failed', () => {
  const wrong = [call('cancel', '01 Feb')];
  const right = [call('cancel', '2026-02-01')];

  it('is right', () => {
    expect(isShownByRest(right, wrong, [later('cancel!', text, ...right)])).toBe(true);
  });

  it('is not proven to be right if the calls succeeded, if only some failed, or if the run gives it only later', () => {
    expect(isShownByRest(right, wrong, [later('cancel', ...right)])).toBe(false);
    expect(isShownByRest(right, [...wrong, call('note')], [later('cancel! note', ...right)])).toBe(false);
    expect(isShownByRest(right, wrong, [later('cancel!', call('note')), later('note', ...right)])).toBe(
      false,
    );
    expect(isShownByRest([text], wrong, [later('cancel!', text)])).toBe(false);
    expect(isShownByRest(right, wrong, [])).toBe(false);
  });
});

describe('an answer that looks up something', () => {
  it('is right if the run makes the same lookups later, or adds lookups to the same calls', () => {
    const rest = [later('get_order', call('get_customer')), later('get_customer', text)];
    expect(isShownByRest([call('get_customer')], [call('get_order')], rest)).toBe(true);
    expect(isShownByRest([call('refund')], [call('get_order'), call('refund')], [])).toBe(true);
  });

  it('is not shown to be right if the run never makes the lookup, or makes it with other arguments', () => {
    expect(isShownByRest([call('get_customer')], [call('get_order')], [later('get_order', text)])).toBe(
      false,
    );
    const other = [later('get_order', call('get_customer', 'A-2'))];
    expect(isShownByRest([call('get_customer')], [call('get_order')], other)).toBe(false);
  });

  it('is another answer if the tool is the same', () => {
    const rest = [later('get_order', call('get_order', 'A-2'))];
    expect(isShownByRest([call('get_order', 'A-2')], [call('get_order')], rest)).toBe(false);
    const both = [call('get_order'), call('refund')];
    expect(isShownByRest([call('get_order', 'A-2')], both, rest)).toBe(false);
  });

  it('is not proven to be right if the golden answer repeats an earlier call', () => {
    const rest = [later('get_order', call('get_customer'))];
    const before = [later('task', call('get_order'))];
    expect(isShownByRest([call('get_customer')], [call('get_order')], rest, before)).toBe(false);
  });

  it('is another answer if it takes the place of a text or a change, or if it changes something', () => {
    const after = [later('refund', call('get_customer'))];
    expect(isShownByRest([call('get_customer')], [call('refund')], after)).toBe(false);
    expect(isShownByRest([call('get_order')], [text], [later('said', call('get_order'))])).toBe(false);
    expect(isShownByRest([call('refund')], [call('get_order')], [later('get_order', call('refund'))])).toBe(
      false,
    );
  });
});

describe('lookups with a tool that only reads according to its description', () => {
  const run = (reads: string[]) => [
    { step: { stage: 'task', reads }, answer: { content: [call('doctor_hours')] } },
    { step: { stage: 'doctor_hours', reads }, answer: { content: [call('referral_rules')] } },
  ];

  it('may come in another order', () => {
    expect(isShown([call('referral_rules')], run(['doctor_hours', 'referral_rules']), 0)).toBe(true);
    expect(isShown([call('referral_rules')], run(['doctor_hours']), 0)).toBe(false);
  });
});

describe('a lookup that the run makes together with a change', () => {
  it('may come first, and the change may not', () => {
    const together = [call('get_order'), call('refund')];
    expect(isShownByRest([call('get_order')], together, [])).toBe(true);
    expect(isShownByRest([call('refund')], [call('note'), call('refund')], [])).toBe(false);
  });
});
