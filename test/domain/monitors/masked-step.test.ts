/** The stored and quoted parts of a step contain no secret, wherever it is in the step. */

import { expect, it } from 'vitest';
import { digestStep } from '../../../src/domain/monitors/digest.ts';
import { copyStep, maskStep, STEP_COPY } from '../../../src/domain/monitors/masked-step.ts';
import { MASK } from '../../../src/redaction/mask.ts';
import { makeStep } from './script.ts';

const BODY = 'Zx81kLmQ0vTeR7uHs2NwYb4JcGfPd9Aa'.repeat(3).slice(0, 93);
const KEY = `sk-ant-api03-${BODY}AA`;
const FIELDS = ['action', 'action_input', 'thought', 'observation'] as const;

it('texts without secrets stay unchanged', () => {
  const step = makeStep(0, { action: 'bash', action_input: 'ls', thought: 'look', observation: 'a.ts' });
  const masked = maskStep(step);
  expect(masked).toEqual({ sent: step, shown: step, is_plain: true });
  expect(copyStep(masked)).toEqual({
    action: 'bash',
    action_input: 'ls',
    thought: 'look',
    observation: 'a.ts',
  });
});

it.each(FIELDS)(
  'a secret of %s is masked before, across and behind the cut, in the copy and in the quote',
  (field) => {
    for (const at of [0, STEP_COPY[field] - 20, STEP_COPY[field] - 1, STEP_COPY[field] + 10]) {
      const masked = maskStep(makeStep(0, { [field]: `${'x '.repeat(at / 2)}${KEY} and more` }));
      expect(masked.is_plain).toBe(false);
      expect(masked.shown[field]).toContain(MASK);
      const { features, ...quotes } = digestStep(masked);
      const kept = JSON.stringify([copyStep(masked), quotes]);
      for (let start = 0; start < BODY.length; start += 8)
        expect(kept).not.toContain(BODY.slice(start, start + 8));
    }
  },
);

it('the line of a failure is masked also beyond the searched part', () => {
  const observation = `${'line of a log\n'.repeat(400)}Error: key ${KEY} was refused`;
  const { outcome } = digestStep(maskStep(makeStep(0, { observation, is_error: true })));
  expect(outcome).toBe(`Error: key ${MASK} was refused`);
});

it('unknown values stay unknown', () => {
  const masked = maskStep(makeStep(0, { action_input: null, observation: null, thought: KEY }));
  expect(copyStep(masked)).toMatchObject({ action_input: null, observation: null, thought: MASK });
});
