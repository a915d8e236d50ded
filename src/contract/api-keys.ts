/** Per-customer API keys (document 1, ApiKeyCreate, ApiKeyCreated, ApiKeyOut). Data; any thread. */
import { z } from 'zod';
import { endpoint, refusal } from './endpoint.ts';
import { identifier, integer, literal, pageFields, reference, text } from './fields.ts';
import { KEY_NAME_CHARACTERS } from './limits.ts';

/** How long a rotated key may stay valid: a week. */
const KEY_OVERLAP_SECONDS_MAX = 604_800;

const apiKeyCreate = z
  .object({
    name: text({ min: 1, max: KEY_NAME_CHARACTERS }),
    org_id: reference().nullish(),
    project_id: reference().nullish(),
    mode: literal(['live', 'test']).default('live'),
  })
  .meta({ id: 'ApiKeyCreate' });

/** The only answer that contains the key itself. */
export const apiKeyCreated = z
  .object({
    id: z.string(),
    name: z.string(),
    raw_key: z.string(),
    prefix: z.string(),
    last4: z.string(),
  })
  .meta({ id: 'ApiKeyCreated' });

export const apiKeyOut = z
  .object({
    id: z.string(),
    name: z.string(),
    prefix: z.string(),
    last4: z.string(),
    scope: z.enum(['organization', 'project']),
    project_id: z.string().nullable().optional(),
    project_name: z.string().nullable().optional(),
    created_at: z.string(),
    last_used_at: z.string().nullable(),
    revoked: z.boolean(),
  })
  .meta({ id: 'ApiKeyOut' });

/** The whole body is optional, because its only field is optional. */
const rotateBody = z
  .object({ overlap_seconds: integer({ ge: 0, le: KEY_OVERLAP_SECONDS_MAX }).default(0) })
  .meta({ id: 'ApiKeyRotate' })
  .default({ overlap_seconds: 0 });

const keyParams = z.object({ key_id: identifier() });

export const API_KEYS = {
  listKeys: endpoint({
    id: 'list_api_keys',
    method: 'GET',
    path: '/api-keys',
    described_path: '/api-keys/',
    auth: 'user',
    permission: 'keys.read',
    summary: 'Keys of an organization, revoked ones too, newest first',
    tag: 'keys',
    query: z.object({
      org_id: reference().optional(),
      project_id: reference().optional(),
      ...pageFields(),
    }),
    replies: {
      200: {
        description: 'A page of keys; `x-total-count` is the number of all keys',
        schema: z.array(apiKeyOut),
        headers: ['x-total-count'],
      },
    },
  }),
  createKey: endpoint({
    id: 'create_api_key',
    method: 'POST',
    path: '/api-keys',
    described_path: '/api-keys/',
    auth: 'user',
    permission: 'keys.create',
    summary: 'Make a key; only this answer shows it',
    tag: 'keys',
    body: apiKeyCreate,
    replies: {
      200: { description: 'The key', schema: apiKeyCreated },
      409: refusal('The maximum number of keys is reached'),
    },
  }),
  rotateKey: endpoint({
    id: 'rotate_api_key',
    method: 'POST',
    path: '/api-keys/{key_id}/rotate',
    auth: 'user',
    permission: 'keys.rotate',
    summary: 'Replace a key by a new one; the old key stays valid for `overlap_seconds`',
    tag: 'keys',
    params: keyParams,
    body: rotateBody,
    replies: {
      200: { description: 'The new key', schema: apiKeyCreated },
      409: refusal('The key is revoked, or the maximum number of keys is reached'),
    },
  }),
  revokeKey: endpoint({
    id: 'revoke_api_key',
    method: 'DELETE',
    path: '/api-keys/{key_id}',
    auth: 'user',
    permission: 'keys.revoke',
    summary: 'Revoke a key immediately',
    tag: 'keys',
    params: keyParams,
    replies: { 200: { description: 'The revoked key', schema: apiKeyOut } },
  }),
} as const;
