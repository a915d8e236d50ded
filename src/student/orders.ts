/**
 * What an operator has ordered of the student in a directory (`orders.json` beside the manifest): agents and kinds of answers
 * that are not served, suspensions that are taken back, the share of runs that a version serves, and whether rounds may put
 * another version in its place. The command line writes it, gateways read it. Any thread.
 */

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import { ORDERS, STUDENT_BOUNDS } from '../limits.ts';
import { describeRefusal } from '../std/file-place.ts';
import { readWholeJson, writeWhole } from './whole-file.ts';

export const ORDERS_NAME = 'orders.json';

const FORMAT = 'svc_student_orders_v1';

const order = z.object({
  /** null: every agent. */
  agent: z.string().max(200).nullable(),
  /** null: every kind of answer. */
  kind: z.string().max(300).nullable(),
  at_ms: z.number().nonnegative(),
});

const schema = z.object({
  format: z.literal(FORMAT),
  /** Rounds keep what they make, and it does not serve until somebody says so. */
  held: z.boolean(),
  /** Versions that serve some runs alone; one that is not named serves all. */
  shares: z.array(z.object({ version: z.int().min(1), share: z.number().min(0).max(1) })).max(ORDERS.shares),
  suspended: z.array(order).max(ORDERS.suspended),
  /** Suspensions that the watch had made until then are over. */
  resumed: z.array(order).max(ORDERS.resumed),
});

/** Orders that cannot be read. */
export class OrdersError extends Error {}

export type Order = z.output<typeof order>;
export type Orders = Omit<z.output<typeof schema>, 'format'>;

/** None. */
export const NO_ORDERS: Orders = { held: false, shares: [], suspended: [], resumed: [] };

/**
 * Reads them.
 * @returns `NO_ORDERS` where there is no file
 * @throws OrdersError of one line for a file that is damaged or cannot be read: what was suspended is not known then
 */
export async function readOrders(directory: string): Promise<Orders> {
  const path = join(directory, ORDERS_NAME);
  let value: unknown;
  try {
    value = await readWholeJson(path, STUDENT_BOUNDS.manifest_bytes);
  } catch (error) {
    throw new OrdersError(describeRefusal(error) ?? (error as Error).message, { cause: error });
  }
  if (value === null) return NO_ORDERS;
  const parsed = schema.safeParse(value);
  if (!parsed.success)
    throw new OrdersError(`${path}: damaged, or of another version; remove it to take all orders back`);
  const { format: _, ...orders } = parsed.data;
  return orders;
}

/**
 * Writes them; gateways follow within seconds.
 * @throws the system's error
 */
export async function writeOrders(directory: string, orders: Orders): Promise<void> {
  await writeWhole(
    join(directory, ORDERS_NAME),
    `${JSON.stringify({ format: FORMAT, ...orders }, null, 2)}\n`,
  );
}

/** Whether an operator has suspended it. @param kind null: the agent as a whole */
export function isSuspendedBy({ suspended }: Orders, agent: string, kind: string | null): boolean {
  return suspended.some(
    (its) => (its.agent === null || its.agent === agent) && (its.kind === null || its.kind === kind),
  );
}

/** Orders with one more suspension. @throws RangeError when there are too many */
export function suspend(orders: Orders, wanted: Order): Orders {
  const others = orders.suspended.filter((its) => its.agent !== wanted.agent || its.kind !== wanted.kind);
  if (others.length >= ORDERS.suspended)
    throw new RangeError(
      `${ORDERS.suspended} suspensions are all that there may be: resume some, or suspend all`,
    );
  return { ...orders, suspended: [...others, wanted] };
}

/**
 * Orders that take suspensions back, the watch's own included.
 * @param wanted without a kind, those of all kinds of the agent; without an agent, all
 */
export function resume(orders: Orders, wanted: Order): Orders {
  const isIts = (its: Order): boolean =>
    (wanted.agent === null || wanted.agent === its.agent) &&
    (wanted.kind === null || wanted.kind === its.kind);
  return {
    ...orders,
    suspended: orders.suspended.filter((its) => !isIts(its)),
    resumed: [...orders.resumed.filter((its) => !isIts(its)), wanted].slice(-ORDERS.resumed),
  };
}

/** Of the runs, how much a version serves, 0 to 1. */
export function shareOf({ shares }: Orders, version: number): number {
  return shares.find((its) => its.version === version)?.share ?? 1;
}

/** Orders with another share for a version. */
export function orderShare(orders: Orders, version: number, share: number): Orders {
  const others = orders.shares.filter((its) => its.version !== version);
  return { ...orders, shares: share < 1 ? [...others, { version, share }].slice(-ORDERS.shares) : others };
}

/**
 * Whether a version serves a run, by the run's identity alone: always the same for one run and version, on every thread
 * and after a restart. A larger share has the runs of a smaller one, and more.
 */
export function admitsRun(orders: Orders, version: number, identity: string): boolean {
  const digest = createHash('sha256').update(`${version}\0${identity}`).digest();
  return digest.readUIntBE(0, 6) / 2 ** 48 < shareOf(orders, version);
}
