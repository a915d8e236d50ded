/**
 * Entry of the student's thread: serves the student of a directory. Composition root of the
 * student's thread.
 */
import { createLog } from '../log.ts';
import { chooseIndex } from '../search/open-index.ts';
import { runOwnThread } from '../std/own-thread.ts';
import { readStudentDirectory } from '../student/directory.ts';
import { Student } from '../student/model/student.ts';
import { StudentService } from '../student/serving/student-service.ts';
import { type OpenStudent, readTerms, runStudent } from './running-student.ts';
import type { StudentTask } from './student-thread-protocol.ts';

async function openStudent(task: StudentTask): Promise<OpenStudent> {
  const { manifest, model } = await readStudentDirectory(task.directory);
  const log = createLog(task.log_level);
  const makeIndex = chooseIndex((message) => log.warn(message));
  const { student: kind, version, coverage } = manifest;
  return {
    facts: { kind: kind.kind, version },
    terms: readTerms(manifest),
    core: new Student(model, makeIndex),
    threshold: coverage.threshold,
    service: kind.kind === 'http' ? new StudentService(kind, task.key) : null,
  };
}

runOwnThread<StudentTask>((task) => runStudent(task, openStudent));
