/** Handlers of `contract/projects.ts`. Server threads. */
import type { z } from 'zod';
import type { Revocations } from '../auth/revocations.ts';
import type { HandlerReply } from '../contract/handler.ts';
import type { PROJECTS, projectOut } from '../contract/projects.ts';
import type { UserHandlersOf } from '../contract/user-handler.ts';
import type { Project, User } from '../domain/account.ts';
import type { Permission } from '../domain/permissions.ts';
import { CatalogueError } from '../errors.ts';
import type { AccountReads, Accounts } from '../storage/ports/accounts.ts';
import { auditActor, requireRole } from './access.ts';
import { type DeletedContent, removeInTime } from './deleted-content.ts';
import { page } from './organizations.ts';

interface ProjectServices {
  accounts: Accounts;
  revocations: Revocations;
  /** Removes the data of a deleted project. */
  content: Pick<DeletedContent, 'remove'>;
}

export function projectHandlers(services: ProjectServices): UserHandlersOf<typeof PROJECTS> {
  const { accounts } = services;
  return {
    listProjects: ({ user, query, now_ms }) => {
      requireRole(accounts, user, query.org_id, 'projects.read');
      const { items, total } = accounts.projects.list(query.org_id, query);
      return page(
        items.map((project) => showProject(accounts, project, now_ms)),
        total,
      );
    },

    createProject: async ({ user, query, body, request, now_ms }) => ({
      body: await accounts.transact((tx) => {
        requireRole(tx, user, query.org_id, 'projects.create');
        const fields = { org_id: query.org_id, name: body.name, created_by: user.id };
        const project = tx.projects.create(fields, now_ms);
        tx.audit.add(auditActor(user, request.address), now_ms, {
          org_id: project.org_id,
          action: 'project.create',
          target: project.id,
          after: { name: project.name },
        });
        return showProject(tx, project, now_ms);
      }),
    }),

    readProject: ({ user, params, now_ms }) => ({
      body: showProject(accounts, requireProject(accounts, user, params.project_id, 'projects.read'), now_ms),
    }),

    renameProject: async ({ user, params, body, request, now_ms }) => ({
      body: await accounts.transact((tx) => {
        const project = requireProject(tx, user, params.project_id, 'projects.rename');
        const renamed = { ...project, name: body.name };
        if (renamed.name !== project.name) {
          tx.projects.put(renamed);
          tx.audit.add(auditActor(user, request.address), now_ms, {
            org_id: project.org_id,
            action: 'project.rename',
            target: project.id,
            before: { name: project.name },
            after: { name: renamed.name },
          });
        }
        return showProject(tx, renamed, now_ms);
      }),
    }),

    deleteProject: (call) => deleteProject(services, call),
  };
}

/** Deletes the project, revokes its keys, and starts to remove its data. */
async function deleteProject(
  { accounts, revocations, content }: ProjectServices,
  { user, params, request, now_ms }: Parameters<UserHandlersOf<typeof PROJECTS>['deleteProject']>[0],
): Promise<HandlerReply> {
  const { org_id, keys_revoked } = await accounts.transact((tx) => {
    const project = requireProject(tx, user, params.project_id, 'projects.delete');
    const keys = [...tx.keys.listLive(project.org_id, project.id, now_ms)];
    for (const { id } of keys) tx.keys.end(id, { revoked_at: new Date(now_ms).toISOString() });
    tx.projects.remove(project, now_ms);
    tx.audit.add(auditActor(user, request.address), now_ms, {
      org_id: project.org_id,
      action: 'project.delete',
      target: project.id,
      before: { name: project.name },
      after: { keys_revoked: keys.map(({ id }) => id) },
    });
    return { org_id: project.org_id, keys_revoked: keys.length };
  });
  revocations.announce(org_id);
  // Data that is not removed in time is removed after the answer, or by the next resumption.
  const { project_id } = params;
  await removeInTime(content, { org_id, project_id });
  return { body: { deleted: true, keys_revoked } };
}

/**
 * Finds a project of an organization to which the user belongs.
 * @throws CatalogueError `not_found`, the same for an unknown project and for a project of an organization to which the
 *   user does not belong; `forbidden` if the user's role lacks the permission
 */
function requireProject(
  accounts: AccountReads,
  user: User,
  project_id: string,
  permission: Permission,
): Project {
  const project = accounts.projects.find(project_id);
  if (project === undefined) throw new CatalogueError('not_found');
  requireRole(accounts, user, project.org_id, permission);
  return project;
}

function showProject(accounts: AccountReads, project: Project, nowMs: number): z.output<typeof projectOut> {
  return { ...project, key_count: accounts.keys.countLive(project.org_id, project.id, nowMs) };
}
