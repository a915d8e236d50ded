/**
 * Waits until another process has carried out an order (capture/order-file.ts). If that process has ended before,
 * carries the order out in this process. Main thread of the command line.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { OrderFile } from './capture/order-file.ts';
import { claimWriter, type WriterClaim, WriterClaimedError } from './writer-claim.ts';

/** Interval of the checks whether the writing process has made progress, and whether it still runs. */
export const LOOK_MS = 50;
const LOOKS_PER_CLAIM = 20;
const ACCEPT_MS = 20_000;

interface OrderWait {
  file: OrderFile;
  capture_db: string;
  /** The name of the writing process for messages. */
  holder: string;
  /** Maximum time that the writing process may take to accept the order; undefined: ACCEPT_MS. */
  accept_ms: number | undefined;
  /** Called at each check. */
  onLook(): void;
  /** Carries the order out in this process, which has the claim on the database. */
  carryOut(): Promise<void>;
  /** Makes the error for an order that is not carried out. */
  refuse(words: string): Error;
}

/**
 * Waits until the order no longer exists. If the writing process ends before that, carries the order out in this
 * process.
 * @throws the error from `refuse` if the order is not accepted in time, or cannot be carried out now
 */
export async function awaitOrderEnd(wait: OrderWait): Promise<void> {
  const { file, capture_db, holder, accept_ms = ACCEPT_MS, refuse } = wait;
  const acceptedUntil = performance.now() + accept_ms;
  for (let look = 1; file.exists(); look++) {
    wait.onLook();
    await pause(LOOK_MS);
    if (look % LOOKS_PER_CLAIM === 0 && (await finishAlone(wait))) return;
    const failure = file.isGiven() ? null : file.readFailure();
    if (failure !== null) throw refuse(`${holder} cannot do that now (${failure}), and tries again later`);
    if (performance.now() < acceptedUntil || !file.isGiven()) continue;
    if (file.withdraw())
      throw refuse(
        `${holder} writes to ${capture_db} and accepts no order: stop that process first (SIGTERM), and start it again afterwards`,
      );
  }
}

/** Carries the order out if the writing process has ended. @returns false if that process still runs */
async function finishAlone({ capture_db, carryOut }: OrderWait): Promise<boolean> {
  let claim: WriterClaim;
  try {
    claim = await claimWriter(capture_db, { patience_ms: 0 });
  } catch (thrown) {
    if (thrown instanceof WriterClaimedError) return false;
    throw thrown;
  }
  try {
    await carryOut();
    return true;
  } finally {
    await claim.release();
  }
}
