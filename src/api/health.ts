/**
 * Handlers of `contract/health.ts`: `/health`, `/ready` and `/metrics`. Server threads.
 */

import type { z } from 'zod';
import type { healthBody, readyBody } from '../contract/health.ts';
import { type ApiReply, type ApiRequest, jsonReply } from '../contract/route.ts';
import { CatalogueError, toApiBody } from '../errors.ts';
import { METRICS_TYPE } from './metrics.ts';
import { type Checks, identify } from './pipeline.ts';

/** Whether a part of the process is ready, or why it is not. */
export type Probed = boolean | string;
/** Probes by name. A probe that throws or rejects counts as not ready. */
export type ReadinessProbes = Readonly<Record<string, () => Probed | Promise<Probed>>>;

export function answerHealth(version: string): ApiReply {
  return jsonReply(200, { status: 'ok', version } satisfies z.input<typeof healthBody>);
}

/** Reports the state of capture. */
export type CaptureProbe = () => Promise<z.input<typeof readyBody>['capture']>;

/**
 * Runs all probes at once, and answers 200 if all of them succeed. The body of a 503 lists the failed
 * probes. Each probe has its own deadline.
 * @param capture is only reported, in the body of a 200, because the gateway still forwards when it
 *   cannot store exchanges
 */
export async function answerReady(probes: ReadinessProbes, capture?: CaptureProbe): Promise<ApiReply> {
  const results = await Promise.all(
    Object.entries(probes).map(async ([name, probe]) => {
      const said = await Promise.resolve()
        .then(probe)
        .catch(() => false);
      return [name, said] as const;
    }),
  );
  const failed = results
    .filter(([, said]) => said !== true)
    .map(([name, said]) => (typeof said === 'string' ? `${name} (${said})` : name));
  if (failed.length === 0) {
    const body: z.input<typeof readyBody> = {
      status: 'ready',
      checks: Object.fromEntries(results.map(([name]) => [name, true])),
    };
    const doing = await capture?.().catch(() => undefined);
    if (doing !== undefined) body.capture = doing;
    return jsonReply(200, body);
  }
  const error = new CatalogueError('unavailable', `Not ready: ${failed.join(', ')}`);
  return jsonReply(error.status, toApiBody(error), [['retry-after', '1']]);
}

/** Headers that a proxy adds. A request with one of them comes from a proxy, not from the caller's machine. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via'];
/** Host names of this machine. A request with another name may come from a page of another site (DNS rebinding). */
const LOCAL_HOST = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/i;

/**
 * Answers a request for metrics. A caller on this machine needs no credential; any other caller needs a static key.
 * @param render null in a process without metrics
 * @throws CatalogueError (as rejection) for a caller without permission, and `unavailable` without metrics
 */
export async function answerMetrics(
  request: ApiRequest,
  checks: Pick<Checks, 'authenticator' | 'failed_sign_ins'>,
  render: (() => Promise<string>) | null,
): Promise<ApiReply> {
  const { address, headers } = request;
  const isPassedOn = FORWARDED.some((name) => headers.has(name));
  const isLocal = isLoopbackAddress(address) && !isPassedOn && LOCAL_HOST.test(headers.get('host') ?? '');
  if (!isLocal) {
    const principal = await identify(request, checks);
    if (principal.type !== 'static') throw new CatalogueError('forbidden');
  }
  if (render === null) throw new CatalogueError('unavailable');
  const type = ['content-type', METRICS_TYPE] as const;
  return { status: 200, headers: [type, ['cache-control', 'no-store']], body: await render() };
}

/** Whether an address, in the form in which the server writes it, is a loopback address. */
function isLoopbackAddress(address: string): boolean {
  return /^127\.\d+\.\d+\.\d+$/.test(address) || address === '::1' || /^(0000:){7}0001$/.test(address);
}
