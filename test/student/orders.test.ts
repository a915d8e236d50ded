/** Operators' orders to a student: which agents are suspended or resumed, and which runs a share includes. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { DriftCopy } from '../../src/student/model/drift-watch.ts';
import {
  admitsRun,
  isSuspendedBy,
  NO_ORDERS,
  ORDERS,
  type Order,
  OrdersError,
  orderShare,
  readOrders,
  resume,
  shareOf,
  suspend,
  writeOrders,
} from '../../src/student/orders.ts';
import { reportWatched } from '../../src/student/student-watch.ts';
import { makeFolder } from '../storage/folder.ts';

const order = (agent: string | null, kind: string | null = null, at_ms = 5): Order => ({
  agent,
  kind,
  at_ms,
});

describe('orders', () => {
  it('are empty without a file, and are read as they were written', async () => {
    const folder = makeFolder();
    expect(await readOrders(folder)).toEqual(NO_ORDERS);
    const orders = orderShare(suspend({ ...NO_ORDERS, held: true }, order('a', 'text')), 3, 0.1);
    await writeOrders(folder, orders);
    expect(await readOrders(folder)).toEqual(orders);
  });

  it('that are damaged are refused, in one line', async () => {
    const folder = makeFolder();
    for (const text of ['{', '{"format":"svc_student_orders_v2"}', '[]']) {
      writeFileSync(join(folder, 'orders.json'), text);
      await expect(readOrders(folder)).rejects.toThrow(OrdersError);
      await expect(readOrders(folder)).rejects.toThrow(/^\S+orders\.json: damaged[^\n]*$/);
    }
  });

  it('suspend an agent, one of its kinds, or all, and undo that', () => {
    const kind = suspend(NO_ORDERS, order('a', 'look'));
    expect(isSuspendedBy(kind, 'a', 'look')).toBe(true);
    expect(isSuspendedBy(kind, 'a', 'text')).toBe(false);
    expect(isSuspendedBy(kind, 'a', null)).toBe(false);
    expect(isSuspendedBy(kind, 'b', 'look')).toBe(false);
    const agent = suspend(kind, order('a'));
    expect(isSuspendedBy(agent, 'a', 'text')).toBe(true);
    // If an agent is suspended as a whole, a single kind of its answers cannot be resumed.
    expect(isSuspendedBy(resume(agent, order('a', 'look')), 'a', 'look')).toBe(true);
    expect(isSuspendedBy(resume(agent, order('a')), 'a', 'look')).toBe(false);
    const all = suspend(agent, order(null));
    expect(isSuspendedBy(all, 'z', 'text')).toBe(true);
    expect(resume(all, order(null)).suspended).toEqual([]);
  });

  it('are bounded: one suspension too many is an error, and the oldest of other orders are dropped', () => {
    let orders = NO_ORDERS;
    for (let at = 0; at < ORDERS.suspended; at++) orders = suspend(orders, order(`${at}`));
    // A repeated order has no further effect.
    orders = suspend(orders, order('1'));
    expect(() => suspend(orders, order('one more'))).toThrow(RangeError);
    for (let at = 0; at < ORDERS.resumed + 5; at++) orders = resume(orders, order(`r${at}`));
    expect(orders.resumed).toHaveLength(ORDERS.resumed);
    for (let version = 1; version < ORDERS.shares + 5; version++) orders = orderShare(orders, version, 0.5);
    expect(orders.shares).toHaveLength(ORDERS.shares);
  });
});

describe('a share of the runs', () => {
  it('has about the requested size, is always the same, and includes the runs of a smaller share', () => {
    const runs = Array.from({ length: 4_000 }, (_, at) => `run ${at}`);
    const small = orderShare(NO_ORDERS, 2, 0.1);
    const large = orderShare(small, 2, 0.5);
    const of = (orders: typeof small, version = 2) => runs.filter((run) => admitsRun(orders, version, run));
    const few = of(small);
    // The bounds are five standard deviations.
    expect(Math.abs(few.length - 400)).toBeLessThan(95);
    expect(of(small)).toEqual(few);
    const many = new Set(of(large));
    expect(Math.abs(many.size - 2_000)).toBeLessThan(160);
    expect(few.every((run) => many.has(run))).toBe(true);
    // The same share of another version has other runs, and a version without an order has all runs.
    expect(of(orderShare(small, 3, 0.1), 3)).not.toEqual(few);
    expect(of(small, 1)).toHaveLength(4_000);
    expect(of(orderShare(small, 2, 0))).toEqual([]);
    expect(shareOf(orderShare(small, 2, 1), 2)).toBe(1);
  });
});

describe('a report of the stored state', () => {
  const state = { observed: 9, wrong: 3, bets: [1, 1, 1, 1] };
  const kept: DriftCopy = {
    version: 4,
    agents: [
      [
        'a',
        { ...state, suspended_at_ms: 10, kinds: [['text', { ...state, suspicion: 1, suspended_at_ms: 10 }]] },
      ],
    ],
  };

  it('shows what audits and operators have suspended, and what was resumed since', () => {
    expect(reportWatched(kept, NO_ORDERS)).toMatchObject([
      {
        agent: 'a',
        state: 'suspended',
        suspended_by: 'audit',
        kinds: [{ kind: 'text', state: 'suspended' }],
      },
    ]);
    // An order to resume that is older than the suspension has no effect.
    expect(reportWatched(kept, resume(NO_ORDERS, order('a', null, 9)))[0]!.state).toBe('suspended');
    expect(reportWatched(kept, resume(NO_ORDERS, order(null, null, 10)))).toMatchObject([
      { agent: 'a', state: 'serving', suspended_by: null, kinds: [{ state: 'suspect' }] },
    ]);
    expect(reportWatched(null, suspend(suspend(NO_ORDERS, order('b')), order('c', 'look')))).toMatchObject([
      { agent: 'b', state: 'suspended', suspended_by: 'operator' },
      { agent: 'c', state: 'serving', suspended_by: null, kinds: [{ kind: 'look', state: 'suspended' }] },
    ]);
  });
});
