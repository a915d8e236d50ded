/**
 * An operator's orders for the student in a directory (`orders.json` beside the manifest): agents and kinds of answers
 * that are not served, suspensions that are lifted, the share of runs that a version serves, and whether rounds may
 * replace the serving version. The command line writes the file, gateways read it. Any thread.
 */

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import { describeRefusal } from '../std/file-place.ts';
import { STUDENT_BOUNDS } from './model/manifest.ts';
import { readWholeJson, writeWhole } from './whole-file.ts';

/**
 * Maximum numbers of suspensions (more are refused), of lifted suspensions, and of versions with a share of the runs
 * (of both, the oldest are dropped).
 */
export const ORDERS = { suspended: 200, resumed: 200, shares: 16 } as const;

export const ORDERS_NAME = 'orders.json';

const FORMAT = 'svc_student_orders_v1';

const order = z.object({
  /** null for every agent. */
  agent: z.string().max(200).nullable(),
  /** null for every kind of answer. */
  kind: z.string().max(300).nullable(),
  at_ms: z.number().nonnegative(),
});

const schema = z.object({
  format: z.literal(FORMAT),
  /** true: a round only keeps the version that it makes; the version serves after an operator's order. */
  held: z.boolean(),
  /** Versions that serve only a share of the runs; a version that is not listed serves all. */
  shares: z.array(z.object({ version: z.int().min(1), share: z.number().min(0).max(1) })).max(ORDERS.shares),
  suspended: z.array(order).max(ORDERS.suspended),
  /** Lifts the suspensions that the watch made before this time. */
  resumed: z.array(order).max(ORDERS.resumed),
});

/** Thrown when the orders cannot be read. */
export class OrdersError extends Error {}

export type Order = z.output<typeof order>;
export type Orders = Omit<z.output<typeof schema>, 'format'>;

/** No orders. */
export const NO_ORDERS: Orders = { held: false, shares: [], suspended: [], resumed: [] };

/**
 * Reads the orders.
 * @returns `NO_ORDERS` when there is no file
 * @throws OrdersError with a one-line message for a file that is damaged or cannot be read: its suspensions are unknown
 *   then, so nothing may be served
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
  const orders = parseOrders(value);
  if (orders === null)
    throw new OrdersError(`${path}: damaged, or of another version; remove the file to withdraw all orders`);
  return orders;
}

/**
 * Reads orders from parsed JSON.
 * @returns null for anything but orders of this version
 */
export function parseOrders(value: unknown): Orders | null {
  const parsed = schema.safeParse(value);
  if (!parsed.success) return null;
  const { format: _, ...orders } = parsed.data;
  return orders;
}

/** The orders in the form in which the file and the shared place store them. */
export function formatOrders(orders: Orders): z.output<typeof schema> {
  return { format: FORMAT, ...orders };
}

/**
 * Writes the orders; gateways apply them within seconds.
 * @throws the system's error
 */
export async function writeOrders(directory: string, orders: Orders): Promise<void> {
  await writeWhole(join(directory, ORDERS_NAME), `${JSON.stringify(formatOrders(orders), null, 2)}\n`);
}

/**
 * Whether an operator has suspended the agent, or one of its kinds of answers.
 * @param kind null for the agent as a whole
 */
export function isSuspendedBy({ suspended }: Orders, agent: string, kind: string | null): boolean {
  return suspended.some(
    (suspension) =>
      (suspension.agent === null || suspension.agent === agent) &&
      (suspension.kind === null || suspension.kind === kind),
  );
}

/**
 * Adds a suspension to orders.
 * @throws RangeError when there are too many
 */
export function suspend(orders: Orders, wanted: Order): Orders {
  const kept = orders.suspended.filter(
    (suspension) => suspension.agent !== wanted.agent || suspension.kind !== wanted.kind,
  );
  if (kept.length >= ORDERS.suspended)
    throw new RangeError(`at most ${ORDERS.suspended} suspensions are possible: resume some, or suspend all`);
  return { ...orders, suspended: [...kept, wanted] };
}

/**
 * Makes orders that lift suspensions, including those of the watch.
 * @param wanted the agent and the kind to resume; without a kind, all kinds of the agent; without an agent, all agents
 */
export function resume(orders: Orders, wanted: Order): Orders {
  const isMeant = (order: Order): boolean =>
    (wanted.agent === null || wanted.agent === order.agent) &&
    (wanted.kind === null || wanted.kind === order.kind);
  return {
    ...orders,
    suspended: orders.suspended.filter((suspension) => !isMeant(suspension)),
    resumed: [...orders.resumed.filter((earlier) => !isMeant(earlier)), wanted].slice(-ORDERS.resumed),
  };
}

/** Share of the runs that a version serves, 0 to 1. */
export function shareOf({ shares }: Orders, version: number): number {
  return shares.find((listed) => listed.version === version)?.share ?? 1;
}

/**
 * Sets the share of a version in orders. A share of 1 removes the version's entry. Beyond ORDERS.shares, the oldest
 * entry is dropped.
 */
export function orderShare(orders: Orders, version: number, share: number): Orders {
  const kept = orders.shares.filter((listed) => listed.version !== version);
  return { ...orders, shares: share < 1 ? [...kept, { version, share }].slice(-ORDERS.shares) : kept };
}

/**
 * Whether a version serves a run. The result depends only on the run's identity, the version and its share, so it is
 * the same on every thread and after a restart. A larger share includes the runs of a smaller share.
 */
export function admitsRun(orders: Orders, version: number, identity: string): boolean {
  const digest = createHash('sha256').update(`${version}\0${identity}`).digest();
  return digest.readUIntBE(0, 6) / 2 ** 48 < shareOf(orders, version);
}
