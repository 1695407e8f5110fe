/* SPDX-License-Identifier: MIT
 * Where the head's product with the vocabulary runs, by name.
 */
#ifndef TRAIN_HEAD_PLACE_H
#define TRAIN_HEAD_PLACE_H

#define PARTITION_HEAD_WORDS "auto|host|device"
typedef enum partition_head {
    PARTITION_HEAD_AUTO, /* as the plan has it */
    PARTITION_HEAD_HOST,
    PARTITION_HEAD_DEVICE,
    PARTITION_HEAD_COUNT
} partition_head;

#endif
