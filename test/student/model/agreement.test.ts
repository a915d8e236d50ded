/** When two answers say the same. */

import { describe, expect, it } from 'vitest';
import { answersAgree } from '../../../src/student/model/agreement.ts';
import { callAnswer, textAnswer } from './made-steps.ts';

const agree = (a: string, b: string): boolean => answersAgree(textAnswer(a), textAnswer(b));

describe('agreement', () => {
  it('of calls requires the same tools in the same order with the same JSON', () => {
    const answer = callAnswer('refund', { a: 1, b: { c: [1, 'x'] } });
    expect(answersAgree(answer, callAnswer('refund', { b: { c: [1, 'x'] }, a: 1 }))).toBe(true);
    expect(answersAgree(answer, callAnswer('refund', { b: { c: ['x', 1] }, a: 1 }))).toBe(false);
    expect(answersAgree(answer, callAnswer('refund', { a: '1', b: { c: [1, 'x'] } }))).toBe(false);
    expect(answersAgree(answer, callAnswer('cancel', { a: 1, b: { c: [1, 'x'] } }))).toBe(false);
    const two = { content: [...answer.content, ...callAnswer('cancel', {}).content] };
    expect(answersAgree(answer, two)).toBe(false);
    expect(answersAgree({ content: [...textAnswer('I will.').content, ...answer.content] }, answer)).toBe(
      true,
    );
    expect(answersAgree(answer, textAnswer('refund'))).toBe(false);
  });

  it('of texts requires the same facts in close wording', () => {
    expect(agree("I've refunded 12.50 EUR for order ORD-7.", 'Order ORD-7 is refunded: 12.50 EUR.')).toBe(
      true,
    );
    expect(agree('It costs 1,204.50 EUR.', 'It costs 1204.5 EUR.')).toBe(true);
    expect(
      agree("I've refunded 12.50 EUR for order ORD-7.", "I've refunded 12.50 EUR for order ORD-8."),
    ).toBe(false);
    expect(
      agree("I've refunded 12.50 EUR for order ORD-7.", "I've refunded 13.50 EUR for order ORD-7."),
    ).toBe(false);
    expect(agree('Order ORD-7 has been refunded.', 'Order ORD-7 cannot be refunded.')).toBe(false);
    expect(agree('The file "a b" is gone.', 'The file "a c" is gone.')).toBe(false);
    expect(agree('Order ORD-7 is cancelled.', 'Delivery of ORD-7 takes place on Monday morning.')).toBe(
      false,
    );
  });

  it('of JSON requires equal values, flags included, in any order of keys, with or without a code fence', () => {
    const mail = (urgent: boolean): string => JSON.stringify({ kind: 'invoice', amount: 200.8, urgent });
    expect(agree(mail(true), mail(false))).toBe(false);
    expect(agree(mail(true), '{ "urgent": true, "amount": 200.80, "kind": "invoice" }')).toBe(true);
    expect(agree(mail(true), `\`\`\`json\n${mail(true)}\n\`\`\``)).toBe(true);
    expect(agree(mail(true), `It is an invoice: ${mail(true)}`)).toBe(false);
  });

  it('of texts requires the same sign, currency and names', () => {
    expect(agree('Your balance is now -$12.', 'Your balance is now $12.')).toBe(false);
    expect(agree('Your balance is now -$12.', 'Your balance now is -$12.')).toBe(true);
    expect(agree('Your balance is now €12.', 'Your balance is now $12.')).toBe(false);
    expect(agree('It rose by 5%.', 'It rose by 5.')).toBe(false);
    expect(agree('The train costs €1,204.50 now.', 'The train costs 1204.5 EUR now.')).toBe(true);
    expect(agree('The train costs EUR 1,204.50 now.', 'The train costs 1204.50 euros now.')).toBe(true);
    expect(agree('The train costs €12 now.', 'The train costs 12 USD now.')).toBe(false);
    expect(agree('The train costs €12 now.', 'The train costs 13 EUR now.')).toBe(false);
    expect(agree('The train costs €12 now.', 'The train costs 12 now.')).toBe(false);
    expect(agree('The train costs $12 now.', 'The train costs 12 USD now.')).toBe(false);
    expect(agree('It is -€12 now.', 'It is 12 EUR now.')).toBe(false);
    expect(agree('I have written to Maria about it.', 'I have written to Chen about it.')).toBe(false);
    expect(agree('I have written to Maria about it.', 'Maria: I have written about it.')).toBe(true);
  });
});
