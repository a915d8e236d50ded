/** The command's process: runs the command line with the process's streams, and exits with its status. Main thread. */

import { exitProcess } from '../std/loading-threads.ts';
import { runUnderstudy } from './command-line.ts';
import { openProcessIo } from './io.ts';

// Regardless of the shell's umask: files and folders that this process and its children create are for this user only.
process.umask(0o077);
const io = openProcessIo();
const status = await runUnderstudy(process.argv.slice(2), io);
// Output must be written before the process ends; threads of a stopped service must not delay that.
await io.out('');
exitProcess(status);
