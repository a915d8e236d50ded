/** The command's process: runs the command line with the process's own streams, and ends with its status. Main thread. */

import { exitProcess } from '../std/loading-threads.ts';
import { runUnderstudy } from './command-line.ts';
import { openProcessIo } from './io.ts';

// Whatever the shell's is: files and folders that this process and its children make are for this user alone.
process.umask(0o077);
const io = openProcessIo();
const status = await runUnderstudy(process.argv.slice(2), io);
// What has been written must be out before the process ends; threads of a stopped service must not keep it.
await io.out('');
exitProcess(status);
