/** Projects inside an organization (document 1, Project). Data; any thread. */
import { z } from 'zod';
import { endpoint, refusal } from './endpoint.ts';
import { identifier, pageFields, reference, text } from './fields.ts';

const PROJECT_NAME_CHARACTERS = 100;

export const projectOut = z
  .object({
    id: z.string(),
    org_id: z.string(),
    name: z.string(),
    created_by: z.string().nullable().optional(),
    created_at: z.string(),
    /** Keys of the project that are not revoked. */
    key_count: z.number().int().optional().meta({ default: 0 }),
  })
  .meta({ id: 'ProjectOut' });

const projectCreate = z
  .object({ name: text({ min: 1, max: PROJECT_NAME_CHARACTERS }) })
  .meta({ id: 'ProjectCreate' });

const projectParams = z.object({ project_id: identifier() });

export const PROJECTS = {
  listProjects: endpoint({
    id: 'list_projects',
    method: 'GET',
    path: '/projects',
    described_path: '/projects/',
    auth: 'user',
    permission: 'projects.read',
    summary: 'Projects of an organization, newest first',
    tag: 'projects',
    query: z.object({ org_id: reference(), ...pageFields() }),
    replies: {
      200: {
        description: 'A page of projects; `x-total-count` is the number of all projects',
        schema: z.array(projectOut),
        headers: ['x-total-count'],
      },
    },
  }),
  createProject: endpoint({
    id: 'create_project',
    method: 'POST',
    path: '/projects',
    described_path: '/projects/',
    auth: 'user',
    permission: 'projects.create',
    summary: 'Make a project',
    tag: 'projects',
    query: z.object({ org_id: reference() }),
    body: projectCreate,
    replies: {
      200: { description: 'The project', schema: projectOut },
      409: refusal('The maximum number of projects is reached'),
    },
  }),
  readProject: endpoint({
    id: 'read_project',
    method: 'GET',
    path: '/projects/{project_id}',
    auth: 'user',
    permission: 'projects.read',
    summary: 'One project of an organization that the user belongs to',
    tag: 'projects',
    params: projectParams,
    replies: { 200: { description: 'The project', schema: projectOut } },
  }),
  renameProject: endpoint({
    id: 'rename_project',
    method: 'PATCH',
    path: '/projects/{project_id}',
    auth: 'user',
    permission: 'projects.rename',
    summary: 'Rename a project',
    tag: 'projects',
    params: projectParams,
    body: projectCreate,
    replies: { 200: { description: 'The changed project', schema: projectOut } },
  }),
  deleteProject: endpoint({
    id: 'delete_project',
    method: 'DELETE',
    path: '/projects/{project_id}',
    auth: 'user',
    permission: 'projects.delete',
    summary: 'Delete a project with its runs, traces, patterns and findings, and revoke its keys',
    tag: 'projects',
    params: projectParams,
    replies: {
      200: {
        description: 'The project is deleted',
        schema: z
          .object({ deleted: z.literal(true), keys_revoked: z.number().int() })
          .meta({ id: 'ProjectDeleted' }),
      },
    },
  }),
} as const;
