/**
 * The API's table: every declared endpoint with its handler, and the one function that answers a request from it.
 * Front threads.
 */

import type { Endpoint } from '../contract/endpoint.ts';
import { docs, health, openapi, ready } from '../contract/health.ts';
import { type ApiReply, type ApiRoute, jsonReply } from '../contract/route.ts';
import type { Asker } from '../runtime/front.ts';
import type { Stores } from '../storage/stores.ts';
import { renderDocs } from './docs.ts';
import { answerHealth, answerReady, type ReadinessProbes } from './health.ts';
import { describeApi } from './openapi.ts';

/** What handlers need of the process, handed in by the composition root. */
export interface ApiServices {
  version: string;
  probes: ReadinessProbes;
  /** Reaches the actors. */
  asker: Asker;
  stores: Stores;
}

const ENDPOINTS: readonly Endpoint[] = [health, ready, openapi, docs];

/** The routes, described and rendered once. */
export function apiRoutes({ version, probes }: ApiServices): ApiRoute[] {
  const document = describeApi(ENDPOINTS, version);
  const description = jsonReply(200, document);
  const page: ApiReply = {
    status: 200,
    headers: [
      ['content-type', 'text/html; charset=utf-8'],
      ['content-security-policy', "default-src 'none'; style-src 'unsafe-inline'"],
    ],
    body: renderDocs(ENDPOINTS, document, version),
  };
  return [
    { endpoint: health, handle: () => answerHealth(version) },
    { endpoint: ready, handle: () => answerReady(probes) },
    { endpoint: openapi, handle: () => description },
    { endpoint: docs, handle: () => page },
  ];
}
