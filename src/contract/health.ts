/** Routes that show whether the service answers, and routes that describe it. Data; any thread. */

import { z } from 'zod';
import { endpoint, errorBody } from './endpoint.ts';

/** Document 2, Health response. */
export const healthBody = z.object({ status: z.literal('ok'), version: z.string() }).meta({ id: 'Health' });

export const readyBody = z
  .object({
    status: z.literal('ready'),
    checks: z.record(z.string(), z.boolean()),
    /**
     * State of capture, if this process has a gateway that captures. It is never a reason to stop traffic,
     * because the gateway forwards in every state.
     */
    capture: z.enum(['ok', 'degraded', 'stopped']).optional(),
  })
  .meta({ id: 'Ready' });

/** Shows that the process answers. It does not check storage, because a busy container must not be restarted. */
export const health = endpoint({
  id: 'health',
  method: 'GET',
  path: '/health',
  auth: 'open',
  any_host: true,
  summary: 'Whether the process answers, and its version',
  tag: 'service',
  replies: { 200: { description: 'The process answers', schema: healthBody } },
});

/** Shows that storage and actors answer. */
export const ready = endpoint({
  id: 'ready',
  method: 'GET',
  path: '/ready',
  auth: 'open',
  any_host: true,
  summary:
    'Whether storage and actors answer. The state of capture is included but does not affect the status',
  tag: 'service',
  replies: {
    200: { description: 'Storage and actors answer', schema: readyBody },
    503: {
      description: 'Storage or an actor does not answer, or the service is stopping',
      schema: errorBody,
    },
  },
});

export const openapi = endpoint({
  id: 'openapi',
  method: 'GET',
  path: '/openapi.json',
  auth: 'open',
  summary: 'This interface description',
  tag: 'service',
  replies: { 200: { description: 'OpenAPI 3.1' } },
  hidden: true,
});

export const docs = endpoint({
  id: 'docs',
  method: 'GET',
  path: '/docs',
  auth: 'open',
  summary: 'This interface description as a page',
  tag: 'service',
  replies: { 200: { description: 'A page', media_type: 'text/html' } },
  hidden: true,
});

/**
 * Figures for monitoring, for the operator only: with a static key, or by a request from the same machine.
 */
export const metrics = endpoint({
  id: 'metrics',
  method: 'GET',
  path: '/metrics',
  auth: 'open',
  checks_credential: true,
  summary: 'Metrics for Prometheus. A request from another machine needs a static key',
  tag: 'service',
  replies: {
    200: { description: 'Text format 0.0.4', media_type: 'text/plain' },
    401: {
      description: 'The request comes from another machine, and its credential is missing or invalid',
      schema: errorBody,
    },
    403: {
      description: 'The request comes from another machine, and its credential is no static key',
      schema: errorBody,
    },
  },
});
