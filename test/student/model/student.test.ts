/** The student: it answers known steps, and gives the reason for the others. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { TurnMessage } from '../../../src/domain/turn.ts';
import { ExactIndex } from '../../../src/search/exact-index.ts';
import { kindOfAnswer } from '../../../src/student/model/answer-kind.ts';
import type { LearnedStep } from '../../../src/student/model/learned-step.ts';
import { digestStep } from '../../../src/student/model/step.ts';
import { plainExtras } from '../../../src/student/model/step-extras.ts';
import { Student } from '../../../src/student/model/student.ts';
import type { StudentAgent, StudentModel } from '../../../src/student/model/student-model.ts';
import { fitStudent, limitAgents, nameAgents } from '../../../src/teaching/student-fit.ts';
import {
  callAnswer,
  called,
  digest,
  makeOrderStep,
  makeRequest,
  orderId,
  textAnswer,
  user,
} from './made-steps.ts';

const makeIndex = (dimensions: number): ExactIndex => new ExactIndex(dimensions);

function learn(steps: readonly LearnedStep[]): Student {
  return new Student(fitStudent(steps), makeIndex);
}

const ORDERS = Array.from({ length: 40 }, (_, i) => makeOrderStep(i));
const student = learn(ORDERS);
const THRESHOLD = 0.5;

function orderStep(result: Record<string, unknown>) {
  const order = String(result.order_id);
  return digest([
    user(`Please look after order ${order}, thanks.`),
    ...called('get_order', { order_id: order }, JSON.stringify(result)),
  ]);
}

describe('the student', () => {
  it('answers like the golden runs, with the values of the live step', () => {
    for (const i of [101, 102, 103, 104]) {
      const { step, answer } = makeOrderStep(i);
      const decision = student.decide(step, THRESHOLD);
      expect(decision).toMatchObject({
        covered: true,
        answer: { content: answer.content, stop_reason: 'tool_use' },
      });
    }
  });

  it('does not accept a new number in the system prompt, unless each golden run had a different number', () => {
    const withPrompt = (i: number, prompt: string): LearnedStep => {
      const made = makeOrderStep(i);
      const order = orderId(i);
      const result = JSON.stringify({ order_id: order, status: 'delivered', total: 100 + i });
      const step = digest(
        [
          user(`Please look after order ${order}, thanks.`),
          ...called('get_order', { order_id: order }, result),
        ],
        { system: [{ type: 'text', text: prompt }] },
      );
      return { ...made, step, answer: callAnswer('refund', { order_id: order }) };
    };
    const prompt = (limit: number, user: number, day: number) =>
      `You help.\nToday is 2026-03-0${day}.\nRefund at most ${limit} dollars.\nThe customer is ${user} years old.`;
    const taught = learn(
      Array.from({ length: 40 }, (_, i) => withPrompt(i, prompt(500, 20 + i, 1 + (i % 7)))),
    );
    const score = (live: string) => taught.decide(withPrompt(101, live).step, THRESHOLD);
    expect(score(prompt(500, 25, 1))).toMatchObject({ covered: true });
    expect(score(prompt(500, 77, 9))).toMatchObject({ covered: true });
    expect(score(prompt(100, 25, 1))).toMatchObject({ covered: false, reason: 'other_value' });
    // If golden runs had two different numbers, a third number counts only as new.
    const both = learn(
      Array.from({ length: 40 }, (_, i) => withPrompt(i, prompt(i < 20 ? 500 : 400, 20 + i, 1))),
    );
    expect(both.decide(withPrompt(101, prompt(100, 25, 1)).step, 0.2)).toMatchObject({ reason: 'too_far' });
  });

  it('reads numbers that services send as texts', () => {
    const paid = (i: number, total: string): LearnedStep => {
      const order = orderId(i);
      const step = orderStep({ order_id: order, status: 'delivered', total });
      return { run_id: `run-${i}`, step, answer: callAnswer('refund', { order_id: order, amount: total }) };
    };
    const taught = learn(Array.from({ length: 40 }, (_, i) => paid(i, (10.5 + i).toFixed(2))));
    const decide = (total: string) => taught.decide(paid(101, total).step, THRESHOLD);
    expect(decide('33.10')).toMatchObject({ covered: true });
    for (const total of ['33000.10', '-33.10'])
      expect(decide(total)).toMatchObject({ covered: false, reason: 'too_far' });
  });

  it('knows how large the numbers in a list are', () => {
    const listed = (i: number, totals: number[]): LearnedStep => {
      const order = orderId(i);
      const step = orderStep({
        order_id: order,
        status: 'delivered',
        lines: totals.map((total) => ({ total })),
      });
      return {
        run_id: `run-${i}`,
        step,
        answer: callAnswer('refund', { order_id: order, amount: totals[0] }),
      };
    };
    const taught = learn(Array.from({ length: 40 }, (_, i) => listed(i, [10.5 + i, 70.5 - ((7 * i) % 40)])));
    const decide = (...totals: number[]) => taught.decide(listed(101, totals).step, THRESHOLD);
    expect(decide(33.1, 44.2)).toMatchObject({ covered: true });
    for (const strange of [-33.1, 33_000.1]) {
      expect(decide(strange, 44.2)).toMatchObject({ covered: false, reason: 'too_far' });
      expect(decide(44.2, strange)).toMatchObject({ covered: false, reason: 'too_far' });
    }
  });

  it('returns only coverage on request', () => {
    const { step } = makeOrderStep(101);
    expect(student.decide(step, THRESHOLD, 'coverage')).toMatchObject({ covered: true, answer: null });
    expect(student.decide(step, -1).covered).toBe(false);
  });

  it('survives being packed as plain JSON', () => {
    const model = fitStudent(ORDERS);
    const again = new Student(JSON.parse(JSON.stringify(model)), makeIndex);
    for (const i of [101, 102])
      expect(again.propose(makeOrderStep(i).step)).toEqual(student.propose(makeOrderStep(i).step));
    expect(JSON.stringify(fitStudent(ORDERS))).toBe(JSON.stringify(model));
  });

  it('never returns an id of another run', () => {
    const golden = new Set(ORDERS.map((_, i) => orderId(i)));
    fc.assert(
      fc.property(
        fc.integer({ min: 10_000, max: 99_999 }),
        fc.constantFrom('delivered', 'pending', 'lost', ''),
        fc.boolean(),
        (n, status, hasId) => {
          const order = `ORD-${n}`;
          const result = {
            ...(hasId ? { order_id: order } : {}),
            status,
            customer: 'C1',
            paid: { total: 3.25, currency: 'EUR' },
          };
          const step = digest([
            user(`Please look after order ${order}, thanks.`),
            ...called('get_order', { order_id: order }, JSON.stringify(result)),
          ]);
          const said = JSON.stringify(student.propose(step).answer ?? '');
          for (const id of golden) if (id !== order) expect(said).not.toContain(`"${id}"`);
        },
      ),
    );
  });

  it('follows the value that decides the answer, not values that are similar by chance', () => {
    // The other status, with the id, customer and amount of a golden run.
    const { answer } = makeOrderStep(0);
    const step = orderStep({
      order_id: orderId(0),
      status: 'pending',
      customer: 'C900',
      paid: { total: 10.5, currency: 'EUR' },
    });
    const decision = student.decide(step, THRESHOLD);
    expect(decision.covered && decision.answer?.content).toMatchObject([{ name: 'cancel' }]);
    expect(answer.content).toMatchObject([{ name: 'refund' }]);
  });

  it('declines an unknown agent', () => {
    const messages = [user(`Please look after order ORD-1, thanks.`)];
    expect(student.decide(digest(messages, { model: 'other' }), 1)).toMatchObject({
      covered: false,
      reason: 'unknown_agent',
    });
    const prompt = [{ type: 'text' as const, text: 'You sell cars. Never help.\nToday is 2026-03-04.' }];
    expect(student.decide(digest(messages, { system: prompt }), 1)).toMatchObject({
      reason: 'unknown_agent',
    });
    const extras = plainExtras({ temperature: 0 });
    expect(student.decide(digestStep(makeRequest(messages), extras), 1)).toMatchObject({
      reason: 'unknown_agent',
    });
  });

  it('declines a step that is too far from golden steps', () => {
    const base = {
      order_id: 'ORD-31',
      status: 'delivered',
      customer: 'C1',
      paid: { total: 3, currency: 'EUR' },
    };
    const known = student.propose(orderStep(base)).score!;
    for (const strange of [
      { ...base, status: 'lost' },
      { ...base, fraud_suspected: true },
      { ...base, paid: { total: 3, currency: 'USD' } },
    ]) {
      expect(student.decide(orderStep(strange), THRESHOLD)).toMatchObject({
        covered: false,
        reason: 'too_far',
      });
      expect(student.propose(orderStep(strange)).score!).toBeGreaterThan(known);
    }
    const failed = digest([
      user('Please look after order ORD-31, thanks.'),
      ...called('get_order', {}, 'boom', true),
    ]);
    expect(student.decide(failed, THRESHOLD)).toMatchObject({
      covered: false,
      reason: 'too_far',
      score: null,
    });
  });

  it('declines when golden steps disagree and nothing distinguishes them', () => {
    const steps = Array.from({ length: 40 }, (_, i) => {
      const { run_id, step } = makeOrderStep(i, { status: 'delivered' });
      return { run_id, step, answer: callAnswer(i % 4 < 2 ? 'refund' : 'cancel', { order_id: orderId(i) }) };
    });
    expect(learn(steps).decide(makeOrderStep(77, { status: 'delivered' }).step, 0.2)).toMatchObject({
      covered: false,
      reason: 'disagreement',
    });
  });

  it('declines when a value is missing', () => {
    const steps = Array.from({ length: 12 }, (_, i) => ({
      run_id: `r${i}`,
      step: digest([user(`Look after ${orderId(i)}`)]),
      answer: callAnswer('get_order', { order_id: orderId(i) }),
    }));
    expect(learn(steps).decide(digest([user('Look after it')]), 1)).toMatchObject({
      covered: false,
      reason: 'missing_value',
    });
  });

  it('keeps the rules of the request', () => {
    const golden = (
      over: Parameters<typeof makeRequest>[1],
      answer = callAnswer('refund', { all: true }),
    ): LearnedStep[] =>
      Array.from({ length: 6 }, (_, i) => ({
        run_id: `r${i}`,
        step: digest([user('Refund all')], over),
        answer,
      }));
    const ask = (over: Parameters<typeof makeRequest>[1], answer?: ReturnType<typeof callAnswer>) =>
      learn(golden(over, answer)).decide(digest([user('Refund all')], over), 1);
    expect(ask({})).toMatchObject({ covered: true });
    const thinking = { thinking: { mode: 'on' as const, budget_tokens: 1_024, effort: null } };
    expect(ask(thinking)).toMatchObject({ reason: 'unsupported' });
    expect(ask(thinking, textAnswer('All is well.'))).toMatchObject({ covered: true });
    expect(ask({ thinking: { mode: 'adaptive', budget_tokens: null, effort: null } })).toMatchObject({
      covered: true,
    });
    expect(ask({ tool_choice: { mode: 'none', names: [], parallel: null } })).toMatchObject({
      reason: 'invalid',
    });
    expect(ask({ tool_choice: { mode: 'tool', names: ['cancel'], parallel: null } })).toMatchObject({
      reason: 'invalid',
    });
    expect(ask({ tool_choice: { mode: 'any', names: [], parallel: null } })).toMatchObject({ covered: true });
    expect(ask({ tool_choice: { mode: 'any', names: [], parallel: null } }, textAnswer('No.'))).toMatchObject(
      { reason: 'invalid' },
    );
    expect(ask({ max_output_tokens: 5 })).toMatchObject({ reason: 'invalid' });
    expect(
      ask({ response_schema: { schema: {}, name: null, strict: null } }, textAnswer('{}')),
    ).toMatchObject({ reason: 'unsupported' });
  });

  it('does not give an answer that only one run gave', () => {
    const steps = ORDERS.slice(0, 1);
    expect(learn(steps).decide(makeOrderStep(2).step, 1).covered).toBe(false);
    expect(learn([]).decide(makeOrderStep(2).step, 1)).toMatchObject({
      covered: false,
      reason: 'unknown_agent',
    });
    // The same run counts once if it is learnt twice.
    expect(learn([...steps, ...steps]).decide(makeOrderStep(2).step, 1).covered).toBe(false);
  });

  it('works through lists and takes the best of them', () => {
    const rowsOf = (i: number) =>
      Array.from({ length: 3 }, (_, r) => ({ ref: `R${i}${r}7`, price: ((i * 7 + r * 5) % 11) + r / 10 }));
    const stepOf = (i: number, done: number) => {
      const rows = rowsOf(i);
      const messages = [user('Handle all rows'), ...called('list_rows', {}, JSON.stringify({ rows }))];
      for (let r = 0; r < done; r++)
        messages.push(...called('write_row', { ref: rows[r]!.ref }, '{"ok":true}'));
      return digest(messages);
    };
    const steps: LearnedStep[] = [];
    for (let i = 10; i < 30; i++) {
      for (let done = 0; done < 3; done++)
        steps.push({
          run_id: `r${i}`,
          step: stepOf(i, done),
          answer: callAnswer('write_row', { ref: rowsOf(i)[done]!.ref }),
        });
      const best = rowsOf(i).reduce((a, b) => (b.price < a.price ? b : a));
      steps.push({ run_id: `r${i}`, step: stepOf(i, 3), answer: callAnswer('pick', { ref: best.ref }) });
    }
    const learned = learn(
      steps.map((taught) => ({ ...taught, step: { ...taught.step, callable: ['write_row', 'pick'] } })),
    );
    const ask = (done: number) => {
      const proposal = learned.propose({ ...stepOf(55, done), callable: ['write_row', 'pick'] });
      return proposal.answer?.content;
    };
    expect(ask(0)).toMatchObject([{ name: 'write_row', input: { ref: rowsOf(55)[0]!.ref } }]);
    expect(ask(2)).toMatchObject([{ name: 'write_row', input: { ref: rowsOf(55)[2]!.ref } }]);
    const best = rowsOf(55).reduce((a, b) => (b.price < a.price ? b : a));
    expect(ask(3)).toMatchObject([{ name: 'pick', input: { ref: best.ref } }]);
  });

  it('learns from few and from odd steps without failing', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.tuple(
            fc.string({ unit: 'binary', maxLength: 30 }),
            fc.jsonValue({ maxDepth: 2 }),
            fc.jsonValue({ maxDepth: 2 }),
          ),
          { maxLength: 8 },
        ),
        (odd) => {
          const steps = odd.map(([said, result, input], i) => ({
            run_id: `r${i}`,
            step: digest([user(said), ...called('get_order', { input }, JSON.stringify(result) ?? '')]),
            answer: callAnswer('refund', { input }),
          }));
          const learned = learn(steps);
          for (const { step } of steps) {
            const { score } = learned.propose(step);
            if (score !== null) expect(score >= 0 && score <= 1).toBe(true);
          }
        },
      ),
      { numRuns: 30 },
    );
  });

  it('does not do what the user forbids, even if the step is very similar to others', () => {
    const ask = (i: number, more: string) => `Please bump ${orderId(i)} to the next version.${more}`;
    const steps = Array.from({ length: 60 }, (_, i) => ({
      run_id: `r${i}`,
      step: digest([user(ask(i, i % 6 === 0 ? ' Do not commit it.' : ' Commit it then.'))]),
      answer: i % 6 === 0 ? textAnswer('Nothing was committed.') : callAnswer('refund', { id: orderId(i) }),
    }));
    const learnt = learn(steps);
    expect(learnt.decide(digest([user(ask(77, ' Commit it then.'))]), THRESHOLD)).toMatchObject({
      covered: true,
      answer: { stop_reason: 'tool_use' },
    });
    for (const more of [
      ' Do NOT commit it.',
      " Don't commit it then.",
      ' Never commit it.',
      ' Commit nothing.',
    ]) {
      const decision = learnt.decide(digest([user(ask(77, more))]), THRESHOLD);
      if (decision.covered) expect(decision.answer!.stop_reason).toBe('end_turn');
    }
  });

  it('accepts several denials in one step if golden runs with the same answer each had one of them', () => {
    const ask = (i: number, ...more: string[]) => [`Please refund ${orderId(i)}.`, ...more].join(' ');
    const denials = ['I do not have the bill.', 'It is not what I wanted.', 'It never worked.'];
    const steps = Array.from({ length: 60 }, (_, i) => ({
      run_id: `r${i}`,
      step: digest([user(ask(i, ...(i % 2 === 0 ? [] : [denials[i % 3]!])))]),
      answer: callAnswer('refund', { id: orderId(i) }),
    }));
    const learnt = learn(steps);
    const isCovered = (...more: string[]): boolean =>
      learnt.decide(digest([user(ask(77, ...more))]), THRESHOLD).covered;
    expect(isCovered(denials[0]!)).toBe(true);
    expect(isCovered(denials[0]!, denials[2]!)).toBe(true);
    expect(isCovered(denials[0]!, 'Do not refund it yet.')).toBe(false);
  });

  it('refuses a step that forbids an action, if golden runs only said that the action had not happened', () => {
    const ask = (i: number, ...more: string[]) => [`Please refund ${orderId(i)}.`, ...more].join(' ');
    const said = ['We did not refund it.', 'They have not sent the bill.'];
    const steps = Array.from({ length: 60 }, (_, i) => ({
      run_id: `r${i}`,
      step: digest([user(ask(i, ...(i % 2 === 0 ? [] : [said[(i >> 1) % 2]!])))]),
      answer: callAnswer('refund', { id: orderId(i) }),
    }));
    const learnt = learn(steps);
    const isCovered = (...more: string[]): boolean =>
      learnt.decide(digest([user(ask(77, ...more))]), THRESHOLD).covered;
    expect(isCovered(said[0]!)).toBe(true);
    expect(isCovered('We do not refund it.')).toBe(false);
    expect(isCovered('Do not refund it.')).toBe(false);
    expect(isCovered('They have not refund it.')).toBe(false);
  });

  it('declines if two runs of the same situation gave another answer, even if similar situations had this one', () => {
    const model = fitStudent(Array.from({ length: 60 }, (_, i) => makeOrderStep(i)));
    const { step } = makeOrderStep(201);
    const index = (dimensions: number) => new ExactIndex(dimensions);
    const usual = new Student(model, index).propose(step);
    const near = usual.nearest!.prototype;
    const oppose = (runs: number): StudentModel => ({
      ...model,
      groups: (model.groups as unknown as StudentAgent[]).map((agent) => ({
        ...agent,
        stages: agent.stages.map((stage) => ({
          ...stage,
          prototypes: [{ ...near, votes: [[-1, runs]] }, ...stage.prototypes],
        })),
      })) as unknown as StudentModel['groups'],
    });
    expect(usual.score!).toBeLessThan(THRESHOLD);
    const { answer, doubts, score } = new Student(oppose(2), index).propose(step);
    expect(answer?.content).toEqual(usual.answer!.content);
    expect([doubts!.disagreement, score]).toEqual([1, 1]);
    expect(new Student(oppose(1), index).propose(step).doubts!.disagreement).toBeLessThan(0.3);
  });

  it('knows whether two results have the same text, which no run had before', () => {
    const check = (i: number, isSame: boolean): LearnedStep => {
      const account = (n: number): string => `DE${20 + (n % 70)}${48_151_623 + 37 * n}`;
      const invoice = `INV-${500 + i}`;
      const read = (name: string, own: string): TurnMessage[] =>
        called(name, { invoice }, JSON.stringify({ vendor: `V${i % 5}`, account: own }));
      const step = digest([
        user(`Please check ${invoice}.`),
        ...read('get_invoice', account(i)),
        ...read('get_order', account(isSame ? i : i + 1_000)),
      ]);
      return { run_id: `run-${i}`, step, answer: callAnswer(isSame ? 'refund' : 'cancel', { invoice }) };
    };
    const taught = learn(Array.from({ length: 40 }, (_, i) => check(i, i % 3 !== 0)));
    for (const isSame of [true, false])
      for (const i of [901, 902]) {
        const { step, answer } = check(i, isSame);
        expect(taught.decide(step, THRESHOLD)).toMatchObject({
          covered: true,
          answer: { content: answer.content },
        });
      }
  });

  it('follows a rare flag that always decided', () => {
    const make = (i: number, isHeld: boolean): LearnedStep => {
      const { run_id, step, answer } = makeOrderStep(i);
      const order = orderId(i);
      const result = {
        order_id: order,
        status: ['delivered', 'pending'][i % 2],
        audit: { flags: { hold: isHeld } },
      };
      const live = digest([
        user(`Please look after order ${order}, thanks.`),
        ...called('get_order', { order_id: order }, JSON.stringify(result)),
      ]);
      const calls = answer.content[0]!.type === 'tool_call' ? answer.content[0]!.name : '';
      return {
        run_id,
        step: { ...step, ...live },
        answer: isHeld ? textAnswer('This order is on hold.') : callAnswer(calls, { order_id: order }),
      };
    };
    const learnt = learn(Array.from({ length: 100 }, (_, i) => make(i, i % 20 === 3)));
    for (const i of [201, 202, 203, 204]) {
      const { answer } = make(i, true);
      const decision = learnt.decide(make(i, true).step, THRESHOLD);
      if (decision.covered) expect(decision.answer!.content).toEqual(answer.content);
      expect(learnt.decide(make(i, false).step, THRESHOLD).covered).toBe(true);
    }
  });

  it('declines a number that is far from all golden ones, or has another sign', () => {
    const paid = (total: number) =>
      orderStep({
        order_id: orderId(101),
        status: 'delivered',
        customer: 'C1001',
        paid: { total, currency: 'EUR' },
      });
    expect(student.decide(paid(20.5), THRESHOLD).covered).toBe(true);
    for (const total of [-20.5, 1e9, 1e308])
      expect(student.decide(paid(total), THRESHOLD)).toMatchObject({ covered: false, reason: 'too_far' });
  });

  it('considers texts between the task and the last result', () => {
    const order = orderId(101);
    const result = JSON.stringify({
      order_id: order,
      status: 'delivered',
      customer: 'C1001',
      paid: { total: 20.5, currency: 'EUR' },
    });
    const after = called('get_order', { order_id: order }, result);
    const talk = [
      { role: 'assistant' as const, content: [{ type: 'text' as const, text: 'What shall I heed?' }] },
      user('Never refund anything without asking me.'),
    ];
    const task = user(`Please look after order ${order}, thanks.`);
    expect(student.decide(digest([task, ...after]), THRESHOLD).covered).toBe(true);
    expect(student.decide(digest([task, ...talk, ...after]), THRESHOLD).covered).toBe(false);
  });

  it('applies the limit of an agent, and no limit if none is set', () => {
    const model = fitStudent(ORDERS);
    const [name] = new Set(nameAgents(ORDERS).values());
    const { step } = makeOrderStep(101);
    const covers = (threshold: number, agent = name!): boolean =>
      new Student(limitAgents(model, [{ agent, threshold }]), makeIndex).decide(step, THRESHOLD).covered;
    expect([covers(THRESHOLD), covers(-1), covers(-1, 'another')]).toEqual([true, false, true]);
  });

  it('applies the limit of each kind of answer, and serves no other kind', () => {
    const model = fitStudent(ORDERS);
    const [agent] = new Set(nameAgents(ORDERS).values());
    const { step } = makeOrderStep(101);
    const free = new Student(model, makeIndex);
    const kind = kindOfAnswer(free.propose(step).answer!.content);
    const limited = (kinds: { kind: string; threshold: number }[]) =>
      new Student(limitAgents(model, [{ agent: agent!, threshold: THRESHOLD, kinds }]), makeIndex);
    const right = limited([{ kind, threshold: THRESHOLD }]);
    expect(right.decide(step, THRESHOLD).covered).toBe(true);
    expect([right.serves(agent!, kind), right.serves(agent!, 'wipe'), free.serves(agent!, 'wipe')]).toEqual([
      true,
      false,
      true,
    ]);
    const others = [[], [{ kind: 'wipe', threshold: THRESHOLD }], [{ kind, threshold: -1 }]];
    for (const kinds of others)
      expect(limited(kinds).decide(step, THRESHOLD)).toMatchObject({ covered: false, reason: 'unproven' });
  });

  it('accepts forms of requests that golden requests show to be valid, and no others', () => {
    const { step } = makeOrderStep(101);
    const taught = ORDERS.map((step) => ({ ...step, step: { ...step.step, breaches: ['role system'] } }));
    const decide = (golden: typeof ORDERS, breaches: string[]) =>
      new Student(fitStudent(golden), makeIndex).decide({ ...step, breaches }, THRESHOLD);
    expect(decide(taught, ['role system']).covered).toBe(true);
    expect(decide(taught, []).covered).toBe(true);
    for (const [golden, breaches] of [
      [taught, ['metadata', 'role system']],
      [ORDERS, ['role system']],
    ] as const)
      expect(decide([...golden], [...breaches])).toMatchObject({ covered: false, reason: 'bad_request' });
  });

  it('fills JSON that an agent answers with, value by value', () => {
    const mail = (i: number): string => `Invoice ${orderId(i)} over EUR ${(100.5 + i).toFixed(2)}`;
    const steps = Array.from({ length: 30 }, (_, i) => ({
      run_id: `r${i}`,
      step: digest([user(mail(i))]),
      answer: textAnswer(JSON.stringify({ id: orderId(i), amount: 100.5 + i, currency: 'EUR', due: null })),
    }));
    const { answer } = learn(steps).propose(digest([user(mail(91))]));
    expect(answer?.content).toEqual([
      { type: 'text', text: `{"id":"${orderId(91)}","amount":191.5,"currency":"EUR","due":null}` },
    ]);
  });

  it('does not mistake a state that one golden run had for one of the others', () => {
    const lost = (i: number): LearnedStep => ({
      ...makeOrderStep(i, { status: 'lost' }),
      answer: callAnswer('refund', { order_id: orderId(i), lost: true }),
    });
    for (const seen of [0, 1, 2]) {
      const steps = Array.from({ length: 24 }, (_, i) => (i < seen ? lost(i) : makeOrderStep(i)));
      const decision = learn(steps).decide(makeOrderStep(31, { status: 'lost' }).step, THRESHOLD);
      if (decision.covered) expect(decision.answer!.content).toEqual(lost(31).answer.content);
      expect(learn(steps).decide(makeOrderStep(31).step, THRESHOLD).covered).toBe(true);
    }
  });
});
