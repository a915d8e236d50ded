/** Handlers of `contract/health.ts`, but for the description itself. Front threads. */

import type { z } from 'zod';
import type { healthBody, readyBody } from '../contract/health.ts';
import { type ApiReply, jsonReply } from '../contract/route.ts';
import { CatalogueError, toApiBody } from '../errors.ts';

/** By name, whether a part of the process answers. A probe that throws or rejects counts as a no. */
export type ReadinessProbes = Readonly<Record<string, () => boolean | Promise<boolean>>>;

export function answerHealth(version: string): ApiReply {
  return jsonReply(200, { status: 'ok', version } satisfies z.input<typeof healthBody>);
}

/** Asks every probe at once. 503 names those that failed; the probes bring their own deadlines. */
export async function answerReady(probes: ReadinessProbes): Promise<ApiReply> {
  const results = await Promise.all(
    Object.entries(probes).map(async ([name, probe]) => {
      const isReady = await Promise.resolve()
        .then(probe)
        .catch(() => false);
      return [name, isReady] as const;
    }),
  );
  const failed = results.filter(([, isReady]) => !isReady).map(([name]) => name);
  if (failed.length === 0) {
    const body: z.input<typeof readyBody> = { status: 'ready', checks: Object.fromEntries(results) };
    return jsonReply(200, body);
  }
  const error = new CatalogueError('unavailable', `Not ready: ${failed.join(', ')}`);
  return jsonReply(error.status, toApiBody(error), [['retry-after', '1']]);
}
