/**
 * Relations between constants of several folders. The start of the service and a test check them,
 * so a change that violates one makes both fail. Any thread.
 */

import { strict as assert } from 'node:assert';
import { CREDENTIAL_CACHE } from '../auth/credential-cache.ts';
import { FREE_OBJECT_BOUNDS } from '../contract/fields.ts';
import { STEP_BODY_BYTES } from '../gateway/relegation/relegated-exchange.ts';
import { UPSTREAM_TIMEOUT_MS } from '../gateway/upstream/connection-pool.ts';
import { UPSTREAM_CONNECT_MS } from '../gateway/upstream/upstream-connection.ts';
import { JSON_BOUNDS } from '../http/json-body.ts';
import { DEFAULTS, DRAIN_DEADLINE_MS } from '../limits.ts';
import { DECODED_BODY_BYTES } from '../providers/content-encoding.ts';
import { STUDENT_CORE } from '../student/model/limits.ts';
import { DISTILL_BODY_BYTES } from '../teaching/limits.ts';

/** Checks the relations. @throws AssertionError that names the violated relation */
export function assertLimitRelations(): void {
  assert(DEFAULTS.GW_MAX_CAPTURE_BYTES <= DECODED_BODY_BYTES, 'an uncompressed body at the cap is decodable');
  assert(CREDENTIAL_CACHE.fresh_ms < 60_000, 'a key that another process revoked fails within a minute');
  assert(FREE_OBJECT_BOUNDS.depth < JSON_BOUNDS.depth, 'a free-form object at its bound fits into a body');
  assert(FREE_OBJECT_BOUNDS.values <= JSON_BOUNDS.keys, 'a free-form object of keys alone fits into a body');
  assert(UPSTREAM_TIMEOUT_MS >= 3_600_000, 'no read timeout is below one hour');
  assert(UPSTREAM_CONNECT_MS <= DRAIN_DEADLINE_MS, 'a request that still connects cannot outlive the drain');
  assert(STEP_BODY_BYTES <= DISTILL_BODY_BYTES, 'all that may be served may be learnt');
  assert(2 * STEP_BODY_BYTES <= STUDENT_CORE.scope_read, 'a step whose settings are not read is not served');
}
