/**
 * Custom profiles: the weight of each monitor, and the score at which it fires (document 4, "v1"). Data; any
 * thread.
 */
import { z } from 'zod';
import { MONITOR_NAMES, type MonitorName } from '../domain/monitors/names.ts';
import { endpoint, errorBody } from './endpoint.ts';
import { cursorFields, decimal, identifier, nextCursor } from './fields.ts';
import { CURSOR_CHARACTERS } from './limits.ts';

/** Largest weight of a custom profile. Only the proportions of weights count. */
const PROFILE_WEIGHT_MAX = 1_000_000;

/** A number for some of the monitors, by name. */
function byMonitor(le: number) {
  const field = decimal({ ge: 0, le }).optional();
  return z.strictObject(
    Object.fromEntries(MONITOR_NAMES.map((monitor) => [monitor, field])) as Record<MonitorName, typeof field>,
  );
}

const profileBody = z
  .object({
    name: identifier(),
    weights: byMonitor(PROFILE_WEIGHT_MAX),
    thresholds: byMonitor(1).nullish(),
  })
  .meta({ id: 'NewProfile' });

const numbers = z.object(Object.fromEntries(MONITOR_NAMES.map((monitor) => [monitor, z.number()])));

const profileReply = z
  .object({ name: z.string(), weights: numbers, thresholds: numbers })
  .meta({ id: 'Profile' });

export const PROFILES = {
  listProfiles: endpoint({
    id: 'listProfiles',
    method: 'GET',
    path: '/v1/monitor/profiles',
    aliases: ['/monitor/profiles'],
    auth: 'bearer',
    summary: 'The profiles that a run may name: the built-in ones, then the organization’s own by name',
    tag: 'runs',
    query: z.object({ ...cursorFields(CURSOR_CHARACTERS) }),
    replies: {
      200: {
        description: 'A page of profiles',
        schema: z
          .object({
            profiles: z.array(profileReply.extend({ is_built_in: z.boolean() })),
            next_cursor: nextCursor,
          })
          .meta({ id: 'ProfilePage' }),
      },
    },
  }),
  putProfile: endpoint({
    id: 'putProfile',
    method: 'POST',
    path: '/v1/monitor/profiles',
    aliases: ['/monitor/profiles'],
    auth: 'bearer',
    summary: 'Stores a profile of the organization; an existing profile with its name is replaced',
    tag: 'runs',
    body: profileBody,
    replies: {
      200: { description: 'The whole profile', schema: profileReply },
      409: {
        description:
          'A built-in profile has that name, or the organization has the maximum number of profiles',
        schema: errorBody,
      },
    },
  }),
  deleteProfile: endpoint({
    id: 'deleteProfile',
    method: 'DELETE',
    path: '/v1/monitor/profiles/{name}',
    aliases: ['/monitor/profiles/{name}'],
    auth: 'bearer',
    summary: 'Deletes a profile of the organization; runs in progress keep it',
    tag: 'runs',
    params: z.object({ name: identifier() }),
    replies: {
      204: { description: 'Deleted: a new run cannot name it' },
      404: { description: 'No such profile', schema: errorBody },
      409: { description: 'The profile is built in', schema: errorBody },
    },
  }),
} as const;
