/** The signed-in user (document 1, User; document 4, "Usage and billing"). Data; any thread. */
import { z } from 'zod';
import { ACCOUNT_TYPES } from '../domain/account.ts';
import { ROLES } from '../domain/role.ts';
import { subscriptionOut } from './billing.ts';
import { endpoint, refusal } from './endpoint.ts';
import { flag, literal, text } from './fields.ts';
import { invitationOut, orgOut } from './organizations.ts';

const DISPLAY_NAME_CHARACTERS = 200;

/**
 * The service sends every field, unless document 1 allows the field to be absent. This rule is the same for all
 * records.
 */
export const userOut = z
  .object({
    id: z.string(),
    email: z.string(),
    display_name: z.string().nullable().optional(),
    account_type: z.enum(ACCOUNT_TYPES).optional().meta({ default: 'developer' }),
    onboarded: z.boolean().optional().meta({ default: false }),
  })
  .meta({ id: 'UserOut' });

/** Other keys are refused (document 4, "Credentials, roles, errors"). */
const userPatch = z
  .strictObject({
    display_name: text({ max: DISPLAY_NAME_CHARACTERS }).nullish(),
    account_type: literal(ACCOUNT_TYPES).optional(),
    onboarded: flag().optional(),
  })
  .meta({ id: 'UserPatch' });

export const bootstrapOut = z
  .object({
    profile: userOut,
    organizations: z.array(orgOut),
    /** The role in the default organization; null for a user without organizations. */
    role: z.enum(ROLES).nullable(),
    subscription: subscriptionOut.nullable(),
    invitations: z.array(invitationOut),
  })
  .meta({ id: 'Bootstrap' });

export const ACCOUNT = {
  getMe: endpoint({
    id: 'get_me',
    method: 'GET',
    path: '/auth/me',
    auth: 'user',
    permission: 'signed in',
    summary: 'The signed-in user; the first call makes the user and a personal organization',
    tag: 'account',
    replies: { 200: { description: 'The user', schema: userOut } },
  }),
  patchMe: endpoint({
    id: 'patch_me',
    method: 'PATCH',
    path: '/auth/me',
    auth: 'user',
    permission: 'signed in',
    summary: 'Change the display name, the account type or whether the user is onboarded',
    tag: 'account',
    body: userPatch,
    replies: { 200: { description: 'The user after the change', schema: userOut } },
  }),
  deleteMe: endpoint({
    id: 'delete_me',
    method: 'DELETE',
    path: '/auth/me',
    auth: 'user',
    permission: 'signed in',
    summary: 'Delete the account, and every organization whose only member is the user',
    tag: 'account',
    replies: {
      204: { description: 'Deleted. Tokens issued so far are refused; a new sign-in makes a new account' },
      409: refusal(
        'The user is the only owner of an organization that has other members or a subscription that renews',
      ),
    },
  }),
  bootstrap: endpoint({
    id: 'bootstrap',
    method: 'GET',
    path: '/auth/bootstrap',
    auth: 'user',
    permission: 'signed in',
    summary: 'Profile, organizations, role, subscription and invitations in one call',
    tag: 'account',
    replies: { 200: { description: 'The data, at most 10 seconds old', schema: bootstrapOut } },
  }),
} as const;
